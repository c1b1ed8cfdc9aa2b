// A linear layer: out = in weight + bias, for R rows. Letters: kernels/matmul.h.
//   in (R, I), out (R, O), weight (I, O), bias (O)
// Backward comes in two halves: the gradient of the input is what the layer before waits for, that
// of the weight can be computed at any later time. All are asynchronous on the stream.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// Overwrites out. An empty bias is none.
void linear_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView weight,
                    ConstTensorView bias = {});

// din = dout weight^T. Overwrites din.
void linear_backward_input(Stream& stream, TensorView din, ConstTensorView dout,
                           ConstTensorView weight);

// dweight += in^T dout, dbias += the sum of dout's rows.
void linear_backward_weight(Stream& stream, TensorView dweight, TensorView dbias,
                            ConstTensorView dout, ConstTensorView in);

}  // namespace ladder
