// Layer normalization [Ba16] of R rows of C elements. Read cpu/plain_layernorm.h first.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

inline constexpr double kLayernormEpsilon = 1e-5;  // GPT-2's

// out = (in - mean) * rstd * weight + bias, row by row. The mean and the variance are those of the
// row's C elements (the variance has the divisor C), and rstd = 1 / sqrt(variance + epsilon).
//   out (R, C) out; mean, rstd (R) out, in the accumulation dtype, saved for backward
//   in (R, C), weight (C), bias (C) in
void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias);

// Adds the gradients with respect to in, weight and bias. With n = (in - mean) * rstd and
// g = dout * weight:
//   din     += rstd * (g - mean_C(g) - n * mean_C(g * n)),  where mean_C is the mean over a row
//   dweight += sum over rows of dout * n
//   dbias   += sum over rows of dout
// din is added to because it is the gradient of the residual stream, which arrives on two ways.
// dweight and dbias are left out if they are empty.
//   din (R, C) in/out; dweight, dbias (C) in/out, in the accumulation dtype
//   dout, in (R, C), weight (C) in; mean, rstd (R) in, in the accumulation dtype
// The order of sums over rows does not depend on the number of threads.
void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                        ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                        ConstTensorView mean, ConstTensorView rstd);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost layernorm_forward_cost(ConstTensorView out, ConstTensorView mean,
                                   ConstTensorView weight) {
  return moving_cost(8 * number_of(out.num_elements()), {out, weight, weight}, {out, mean, mean});
}
inline Cost layernorm_backward_cost(ConstTensorView din, ConstTensorView dweight,
                                    ConstTensorView dbias, ConstTensorView weight,
                                    ConstTensorView mean) {
  return moving_cost(16 * number_of(din.num_elements()),
                     {din, din, din, dweight, dbias, weight, mean, mean}, {din, dweight, dbias});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::layernorm_forward) layernorm_forward;
decltype(ladder::layernorm_backward) layernorm_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::layernorm_forward) layernorm_forward;
decltype(ladder::layernorm_backward) layernorm_backward;
}  // namespace cuda

inline void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                              ConstTensorView in, ConstTensorView weight, ConstTensorView bias) {
  const ArgumentCheck expect("layernorm_forward", stream, "out", out, 2);
  const size_t rows = out.shape()[0], n = out.shape()[1];
  expect.accumulated("mean", mean, {rows});
  expect.accumulated("rstd", rstd, {rows});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  expect("bias", bias, {n});
  run_body(expect, layernorm_forward_cost(out, mean, weight), cpu::layernorm_forward,
           cuda::layernorm_forward, stream, out, mean, rstd, in, weight, bias);
}

inline void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                               ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                               ConstTensorView mean, ConstTensorView rstd) {
  const ArgumentCheck expect("layernorm_backward", stream, "din", din, 2);
  const size_t rows = din.shape()[0], n = din.shape()[1];
  if (!dweight.empty()) expect.accumulated("dweight", dweight, {n});
  if (!dbias.empty()) expect.accumulated("dbias", dbias, {n});
  expect("dout", dout, {rows, n});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  expect.accumulated("mean", mean, {rows});
  expect.accumulated("rstd", rstd, {rows});
  run_body(expect, layernorm_backward_cost(din, dweight, dbias, weight, mean),
           cpu::layernorm_backward, cuda::layernorm_backward, stream, din, dweight, dbias, dout, in,
           weight, mean, rstd);
}

}  // namespace ladder
