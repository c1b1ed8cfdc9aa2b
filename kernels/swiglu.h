// SwiGLU [Shazeer20]: one half of a row's columns, through SiLU, scales the other half. Read
// cpu/plain_swiglu.h first.
//
// A row of `in` has F columns `gate`, then F columns `up`: one matrix product computes both.
//   silu(x) = x * sigmoid(x),  sigmoid(x) = 1 / (1 + exp(-x))
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out[r, i] = silu(gate[r, i]) * up[r, i].
//   out (R, F) out; in (R, 2 F) in
void swiglu_forward(Stream& stream, TensorView out, ConstTensorView in);

// With s = sigmoid(gate), element by element:
//   dgate = dout * up * (s + silu(gate) * (1 - s)),  dup = dout * silu(gate)
//   din (R, 2 F) = [dgate | dup] out, overwritten; dout (R, F), in (R, 2 F) in. din may be in.
void swiglu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost swiglu_forward_cost(ConstTensorView out, ConstTensorView in) {
  return moving_cost(5 * number_of(out.num_elements()), {in}, {out});
}
inline Cost swiglu_backward_cost(ConstTensorView din, ConstTensorView dout) {
  return moving_cost(11 * number_of(dout.num_elements()), {dout, din}, {din});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::swiglu_forward) swiglu_forward;
decltype(ladder::swiglu_backward) swiglu_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::swiglu_forward) swiglu_forward;
decltype(ladder::swiglu_backward) swiglu_backward;
}  // namespace cuda

inline void swiglu_forward(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect("swiglu_forward", stream, "out", out, 2);
  expect("in", in, {out.shape()[0], 2 * out.shape()[1]});
  run_body(expect, swiglu_forward_cost(out, in), cpu::swiglu_forward, cuda::swiglu_forward, stream,
           out, in);
}

inline void swiglu_backward(Stream& stream, TensorView din, ConstTensorView dout,
                            ConstTensorView in) {
  const ArgumentCheck expect("swiglu_backward", stream, "dout", dout, 2);
  const Shape both = {dout.shape()[0], 2 * dout.shape()[1]};
  expect("din", din, both);
  expect("in", in, both);
  run_body(expect, swiglu_backward_cost(din, dout), cpu::swiglu_backward, cuda::swiglu_backward,
           stream, din, dout, in);
}

}  // namespace ladder
