// Tensor parallelism as the model sees it: the points at which ranks that hold slices of the large
// weights combine their results.
#pragma once

#include <functional>

#include "common/model/row_split.h"
#include "kernels/collective.h"
#include "kernels/runtime/work.h"

namespace ladder {

// Two linear layers in a row need only one sum over the ranks. The first weight is split by
// columns, so each rank computes some columns of the first layer's output. The second weight is
// split by rows: each rank has just the rows that multiply its columns, and computes a partial sum
// of the second layer's output. The point where ranks enter the pair is called f, the point where
// they leave it g [Shoeybi19, section 3].
//
// The pair works on all rows of a micro-batch. Outside of it, on the residual stream, every rank
// has all rows, too, or its own rows alone [Korthikanti22, section 4.2.2]. Then the points gather
// rows that the ranks have between them, and scatter sums. `gathered` is memory for all rows, which
// gathered rows may overwrite. Buffers of all rows are padded as RowSplit says.
//
// If the model is not split, nothing happens at these points: unless they are set, the functions of
// f and g return their argument, and reduce_statistics is empty.
struct TensorParallel {
  // Rows that are on their way: `rows` may be read when `work` has been waited for.
  struct Pending {
    ConstTensorView rows;
    Work work = {};
  };

  // f in forward, before the first product. `in` is the pair's input. It has the rows that this
  // rank has of the residual stream, or memory for all rows, of which own_rows() have been
  // computed. Returns all rows, in `gathered`, or in `in` if that has memory for them.
  std::function<ConstTensorView(Stream&, TensorView in, TensorView gathered)> enter =
      [](Stream&, TensorView in, TensorView) { return ConstTensorView(in); };
  // f in backward, for the gradient of the first weight, which needs the same rows once more. `in`
  // is that of enter(). Returns at once, so that what does not need them can run meanwhile.
  // `gathered` belongs to the operation until its Work has been waited for.
  std::function<Pending(Stream&, ConstTensorView in, TensorView gathered)> enter_again =
      [](Stream&, ConstTensorView in, TensorView) { return Pending{in}; };
  // f in backward. Each rank has the part of the input's gradient that comes from its columns.
  // Begins to sum it over the ranks, and returns at once, so that the product of the weight's
  // gradient can run meanwhile. The sum comes as the residual stream is split. `d_in` belongs to it
  // until its Work has been waited for, and is overwritten.
  std::function<Pending(Stream&, TensorView d_in)> enter_backward = [](Stream&, TensorView d_in) {
    return Pending{d_in};
  };
  // g in forward, after the second product: each rank has a term of it, `partial`. Returns the sum
  // over the ranks, as the residual stream is split. `partial` is overwritten.
  std::function<ConstTensorView(Stream&, TensorView partial)> leave =
      [](Stream&, TensorView partial) { return ConstTensorView(partial); };
  // g in backward. `d_out` is the gradient of the pair's output, as the residual stream is split.
  // Returns all its rows, which the second product's backward needs.
  std::function<ConstTensorView(Stream&, ConstTensorView d_out, TensorView gathered)>
      leave_backward = [](Stream&, ConstTensorView d_out, TensorView) { return d_out; };
  // The classifier's weight is split by rows, the tokens of the vocabulary. Reduces statistics of
  // the logits (maximum, sum of exponentials, target's logit) over the ranks, in place. Empty if a
  // rank has the whole vocabulary.
  std::function<void(Stream&, TensorView statistics, Reduction)> reduce_statistics;
  // Which rows this rank has of the residual stream.
  RowSplit residual = {};

  // Returns whether ranks hold slices of the weights.
  bool is_split() const { return static_cast<bool>(reduce_statistics); }

  // Returns those of all rows that this rank has of the residual stream, which are `count` rows.
  template <class View>
  View own_rows(View all, size_t count) const {
    return all.shape()[0] == count ? all : all.rows(residual.first(all.shape()[0]), count);
  }
};

}  // namespace ladder
