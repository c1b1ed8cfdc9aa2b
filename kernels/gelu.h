// GELU in its tanh form [Hendrycks16]. Read cpu/plain_gelu.h first.
//
// We write (1 + tanh(u)) / 2 as gate = 1 / (1 + exp(-w)) with w = 2 u. That needs one exponential
// and one division, exp is faster than tanh, and nothing cancels where tanh is near -1.
//   out = in * gate,  w = sqrt(8/pi) (in + 0.044715 in^3)
//   derivative = gate + in * gate * (1 - gate) * w'
#pragma once

#include "kernels/kernel.h"

namespace ladder {

inline constexpr double kGeluScale = 1.5957691216057308;  // sqrt(8/pi)
inline constexpr double kGeluCubic = 0.044715;

// out = in/2 * (1 + tanh(sqrt(2/pi) * (in + 0.044715 in^3))), element by element. The arguments
// have the same shape, whatever it is.
void gelu_forward(Stream& stream, TensorView out, ConstTensorView in);

// din = dout * (the derivative at `in`). The arguments have the same shape. din may be dout,
// and it may be in.
void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost gelu_forward_cost(ConstTensorView out) {
  return moving_cost(8 * number_of(out.num_elements()), {out}, {out});
}
inline Cost gelu_backward_cost(ConstTensorView din) {
  return moving_cost(14 * number_of(din.num_elements()), {din, din}, {din});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::gelu_forward) gelu_forward;
decltype(ladder::gelu_backward) gelu_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::gelu_forward) gelu_forward;
decltype(ladder::gelu_backward) gelu_backward;
}  // namespace cuda

inline void gelu_forward(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect("gelu_forward", stream, "out", out, 0);
  expect("in", in, out.shape());
  run_body(expect, gelu_forward_cost(out), cpu::gelu_forward, cuda::gelu_forward, stream, out, in);
}

inline void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout,
                          ConstTensorView in) {
  const ArgumentCheck expect("gelu_backward", stream, "din", din, 0);
  expect("dout", dout, din.shape());
  expect("in", in, din.shape());
  run_body(expect, gelu_backward_cost(din), cpu::gelu_backward, cuda::gelu_backward, stream, din,
           dout, in);
}

}  // namespace ladder
