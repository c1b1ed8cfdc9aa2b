#include "common/model/adapted_linear.h"

#include "common/model/linear.h"

namespace ladder {

using P = LinearParameter;

void AdaptedLinear::forward(Stream& stream, TensorView out, ConstTensorView in) const {
  linear_forward(stream, out, in, weights_[index_ + P::weight], weights_[index_ + P::bias],
                 linear_.out_first);
  adapters_.forward(stream, out, in);
}

void AdaptedLinear::backward(Stream& stream, TensorView din, const UnitView& gradients,
                             ConstTensorView dout, ConstTensorView in) const {
  linear_backward_input(stream, din, dout, weights_[index_ + P::weight], linear_.out_first);
  adapters_.backward_input(stream, din, dout);
  adapters_.backward_weight(stream, gradients, dout, in);
  linear_backward_weight(stream, gradients[index_ + P::weight], gradients[index_ + P::bias], dout,
                         in, linear_.out_first);
}

}  // namespace ladder
