// Layer normalization [Ba16]. Letters and rules: kernels/matmul.h.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

inline constexpr double kLayernormEpsilon = 1e-5;  // GPT-2's

// out = (in - mean) * rstd * weight + bias, row by row, with mean and rstd = 1/sqrt(variance + eps)
// over the row's C elements (variance with divisor C).
//   out (R, C), mean (R), rstd (R) out; the latter two, of a, saved for backward
//   in (R, C), weight (C), bias (C) in
void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias);

// din += the gradient with respect to in; dweight +=, dbias += those of the parameters.
// With n = (in - mean) * rstd and g = dout * weight:
//   din += rstd * (g - mean_C(g) - n * mean_C(g * n)),  dweight += sum_R(dout * n),
//   dbias += sum_R(dout).
// din adds because it is the residual stream's gradient, which arrives on two ways.
//   din (R, C), dweight (C), dbias (C) in/out; dout (R, C), in (R, C), weight (C), mean, rstd (R)
//   in; dweight, dbias, mean and rstd of a
// Sums over rows have an order that is independent of the threads.
void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                        ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                        ConstTensorView mean, ConstTensorView rstd);

// Costs (kernel.h).
inline Cost layernorm_forward_cost(ConstTensorView out, ConstTensorView mean,
                                   ConstTensorView weight) {
  return moving_cost(8 * number_of(out.num_elements()), {out, weight, weight}, {out, mean, mean});
}
inline Cost layernorm_backward_cost(ConstTensorView din, ConstTensorView dweight,
                                    ConstTensorView weight, ConstTensorView mean) {
  return moving_cost(16 * number_of(din.num_elements()),
                     {din, din, din, dweight, dweight, weight, mean, mean},
                     {din, dweight, dweight});
}

// Bodies, and entries that check what these are given.
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
  run_body(cpu::layernorm_forward, cuda::layernorm_forward, stream, out, mean, rstd, in, weight,
           bias);
}

inline void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                               ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                               ConstTensorView mean, ConstTensorView rstd) {
  const ArgumentCheck expect("layernorm_backward", stream, "din", din, 2);
  const size_t rows = din.shape()[0], n = din.shape()[1];
  expect.accumulated("dweight", dweight, {n});
  expect.accumulated("dbias", dbias, {n});
  expect("dout", dout, {rows, n});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  expect.accumulated("mean", mean, {rows});
  expect.accumulated("rstd", rstd, {rows});
  run_body(cpu::layernorm_backward, cuda::layernorm_backward, stream, din, dweight, dbias, dout, in,
           weight, mean, rstd);
}

}  // namespace ladder
