// RMSNorm [Zhang19] of R rows of C elements: layernorm that takes no mean off and adds no bias.
// Read cpu/plain_rmsnorm.h first.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out = in * rstd * weight, row by row, with rstd = 1 / sqrt(mean of in^2 + epsilon): the mean is
// that of the row's C elements, and epsilon, the model's (1e-5 or 1e-6), stands under the root.
//   out (R, C) out; rstd (R) out, in the accumulation dtype, saved for backward
//   in (R, C), weight (C) in
void rmsnorm_forward(Stream& stream, TensorView out, TensorView rstd, ConstTensorView in,
                     ConstTensorView weight, double epsilon);

// Adds the gradients with respect to in and weight. With n = in * rstd and g = dout * weight:
//   din     += rstd * (g - n * mean_C(g * n)),  where mean_C is the mean over a row
//   dweight += sum over rows of dout * n
// din is added to because it is the gradient of the residual stream, which arrives on two ways.
// dweight is left out if it is empty.
//   din (R, C) in/out; dweight (C) in/out, in the accumulation dtype
//   dout, in (R, C), weight (C) in; rstd (R) in, in the accumulation dtype
// The order of sums over rows does not depend on the number of threads.
void rmsnorm_backward(Stream& stream, TensorView din, TensorView dweight, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView weight, ConstTensorView rstd);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost rmsnorm_forward_cost(ConstTensorView out, ConstTensorView rstd,
                                 ConstTensorView weight) {
  return moving_cost(4 * number_of(out.num_elements()), {out, weight}, {out, rstd});
}
inline Cost rmsnorm_backward_cost(ConstTensorView din, ConstTensorView dweight,
                                  ConstTensorView weight, ConstTensorView rstd) {
  return moving_cost(10 * number_of(din.num_elements()), {din, din, din, dweight, weight, rstd},
                     {din, dweight});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::rmsnorm_forward) rmsnorm_forward;
decltype(ladder::rmsnorm_backward) rmsnorm_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::rmsnorm_forward) rmsnorm_forward;
decltype(ladder::rmsnorm_backward) rmsnorm_backward;
}  // namespace cuda

inline void rmsnorm_forward(Stream& stream, TensorView out, TensorView rstd, ConstTensorView in,
                            ConstTensorView weight, double epsilon) {
  const ArgumentCheck expect("rmsnorm_forward", stream, "out", out, 2);
  const size_t rows = out.shape()[0], n = out.shape()[1];
  expect.accumulated("rstd", rstd, {rows});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  if (!(epsilon >= 0)) {
    fail(concat("rmsnorm_forward: argument `epsilon` is ", epsilon, ", expected at least 0"));
  }
  run_body(expect, rmsnorm_forward_cost(out, rstd, weight), cpu::rmsnorm_forward,
           cuda::rmsnorm_forward, stream, out, rstd, in, weight, epsilon);
}

inline void rmsnorm_backward(Stream& stream, TensorView din, TensorView dweight,
                             ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                             ConstTensorView rstd) {
  const ArgumentCheck expect("rmsnorm_backward", stream, "din", din, 2);
  const size_t rows = din.shape()[0], n = din.shape()[1];
  if (!dweight.empty()) expect.accumulated("dweight", dweight, {n});
  expect("dout", dout, {rows, n});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  expect.accumulated("rstd", rstd, {rows});
  run_body(expect, rmsnorm_backward_cost(din, dweight, weight, rstd), cpu::rmsnorm_backward,
           cuda::rmsnorm_backward, stream, din, dweight, dout, in, weight, rstd);
}

}  // namespace ladder
