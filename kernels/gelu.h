// GELU, tanh form [Hendrycks16]. Letters and rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// out = in/2 * (1 + tanh(sqrt(2/pi) * (in + 0.044715 in^3))), element by element. Any shape.
void gelu_forward(Stream& stream, TensorView out, ConstTensorView in);

// din = dout * the derivative at `in`. Any shape. din may be dout.
void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in);

}  // namespace ladder
