// GELU, tanh form [Hendrycks16]. Letters and rules: kernels/matmul.h.
//
// With (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) =: gate, and w = 2 u, the functions need one
// exponential and one division: exp is faster than tanh, and nothing cancels where tanh is near -1.
//   out = in * gate(w),  w = sqrt(8/pi) (in + 0.044715 in^3)
//   derivative = gate + in * gate * (1 - gate) * w'
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

inline constexpr double kGeluScale = 1.5957691216057308;  // sqrt(8/pi)
inline constexpr double kGeluCubic = 0.044715;

// out = in/2 * (1 + tanh(sqrt(2/pi) * (in + 0.044715 in^3))), element by element. Any shape.
void gelu_forward(Stream& stream, TensorView out, ConstTensorView in);

// din = dout * the derivative at `in`. Any shape. din may be dout.
void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in);

}  // namespace ladder
