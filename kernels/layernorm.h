// Layer normalization [Ba16]. Letters and rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

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

}  // namespace ladder
