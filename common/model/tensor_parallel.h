// Tensor parallelism as the model sees it: the points at which ranks that hold slices of the large
// weights combine their results.
#pragma once

#include <functional>

#include "kernels/collective.h"
#include "kernels/runtime/work.h"

namespace ladder {

// Two linear layers in a row need only one sum over the ranks. The first weight is split by
// columns, so each rank computes some columns of the first layer's output. The second weight is
// split by rows: each rank has just the rows that multiply its columns, and computes a partial sum
// of the second layer's output. The pair's input and its output are the same on all ranks. The
// point where ranks enter the pair is called f, the point where they leave it g [Shoeybi19, section
// 3].
//
// If the model is not split, nothing happens at these points; that is what the functions do unless
// they are set.
struct TensorParallel {
  // f in forward, before the first product. `in` is the pair's input. Returns what the first
  // product reads.
  std::function<ConstTensorView(Stream&, ConstTensorView in)> enter =
      [](Stream&, ConstTensorView in) { return in; };
  // f in backward. Each rank has the part of the input's gradient that comes from its columns.
  // Begins to sum it over the ranks, in place, and returns at once, so that the product of the
  // weight's gradient can run meanwhile. `d_in` belongs to the sum until its Work has been waited
  // for.
  std::function<Work(Stream&, TensorView d_in)> enter_backward = [](Stream&, TensorView) {
    return Work();
  };
  // g in forward, after the second product. Each rank has a partial sum. Returns the sum over the
  // ranks, which may overwrite `partial`.
  std::function<ConstTensorView(Stream&, TensorView partial)> leave =
      [](Stream&, TensorView partial) { return ConstTensorView(partial); };
  // g in backward. Given the gradient of the pair's output, returns what the second product's
  // backward reads.
  std::function<ConstTensorView(Stream&, ConstTensorView d_out)> leave_backward =
      [](Stream&, ConstTensorView d_out) { return d_out; };
  // The classifier's weight is split by rows, the tokens of the vocabulary. Reduces statistics of
  // the logits (maximum, sum of exponentials, target's logit) over the ranks, in place. Empty if a
  // rank has the whole vocabulary.
  std::function<void(Stream&, TensorView statistics, Reduction)> reduce_statistics;
};

}  // namespace ladder
