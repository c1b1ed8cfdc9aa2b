// Tensor parallelism, as the model sees it: the points at which ranks that hold a slice of every
// large weight meet.
#pragma once

#include <functional>

#include "kernels/collective.h"
#include "kernels/runtime/work.h"

namespace ladder {

// Two linear layers in a row need one sum over the ranks: the weight of the first has its columns
// split, so that a rank has whole columns of the output, the weight of the second its rows, which
// meet just these columns. What goes into the pair and what comes out of it is the same on all
// ranks. The two points are called f and g [Shoeybi19, section 3]. Where a model is not split all
// of them are identities, which is what the functions here are unless they are set.
struct TensorParallel {
  // f, before the first product. `in` is the input of the pair as the residual stream has it;
  // returns what the product reads.
  std::function<ConstTensorView(Stream&, ConstTensorView in)> enter =
      [](Stream&, ConstTensorView in) { return in; };
  // f in backward: each rank has the gradient that its columns give, and the sum over the ranks is
  // that of the whole input. Begins the sum, in place, and returns at once; the product of the
  // weight's gradient runs meanwhile.
  std::function<Work(Stream&, TensorView d_in)> enter_backward = [](Stream&, TensorView) {
    return Work();
  };
  // g, after the second product: each rank has a part of the sum. Returns the sum, which may
  // replace `partial`.
  std::function<ConstTensorView(Stream&, TensorView partial)> leave =
      [](Stream&, TensorView partial) { return ConstTensorView(partial); };
  // g in backward: returns the gradient of the pair's output, as the second product's backward
  // needs it.
  std::function<ConstTensorView(Stream&, ConstTensorView d_out)> leave_backward =
      [](Stream&, ConstTensorView d_out) { return d_out; };
  // The classifier's weight has its rows (tokens of the vocabulary) split. Reduces statistics of
  // logits, one or more for each row, in place.
  std::function<void(Stream&, TensorView statistics, Reduction)> reduce_statistics =
      [](Stream&, TensorView, Reduction) {};
};

}  // namespace ladder
