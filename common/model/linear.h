// A linear layer: out = in weight + bias, for R rows of I inputs and O outputs.
//   in (R, I), out (R, O), weight (I, O), or (O, I) if `out_first`; bias (O)
// Backward comes in two halves. The layer before waits for the gradient of the input; the gradient
// of the weight can be computed later. All calls are asynchronous on the stream.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// Overwrites out. If `bias` is empty there is no bias.
void linear_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView weight,
                    ConstTensorView bias, bool out_first);

// Computes din = dout weight^T, with the weight as (I, O). Overwrites din.
void linear_backward_input(Stream& stream, TensorView din, ConstTensorView dout,
                           ConstTensorView weight, bool out_first);

// Computes dweight += in^T dout, or its transpose if `out_first`, and dbias += the sum of dout's
// rows; of these what is not empty.
void linear_backward_weight(Stream& stream, TensorView dweight, TensorView dbias,
                            ConstTensorView dout, ConstTensorView in, bool out_first);

}  // namespace ladder
