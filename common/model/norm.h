// The norms that a model may have, behind one pair of functions. All calls are asynchronous on the
// stream.
#pragma once

#include "common/model/config.h"
#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"

namespace ladder {

// Computes out (R, C), the norm of in (R, C) with weight (C) and bias (C), and the statistics mean
// and rstd (R) that backward needs. RMSNorm has neither bias nor mean, which are then empty.
inline void norm_forward(Stream& stream, Norm norm, double epsilon, TensorView out, TensorView mean,
                         TensorView rstd, ConstTensorView in, ConstTensorView weight,
                         ConstTensorView bias) {
  if (norm == Norm::rmsnorm) return rmsnorm_forward(stream, out, rstd, in, weight, epsilon);
  layernorm_forward(stream, out, mean, rstd, in, weight, bias);
}

// Adds the gradients with respect to in, weight and bias; those of the parameters unless they are
// empty.
inline void norm_backward(Stream& stream, Norm norm, TensorView din, TensorView dweight,
                          TensorView dbias, ConstTensorView dout, ConstTensorView in,
                          ConstTensorView weight, ConstTensorView mean, ConstTensorView rstd) {
  if (norm == Norm::rmsnorm) return rmsnorm_backward(stream, din, dweight, dout, in, weight, rstd);
  layernorm_backward(stream, din, dweight, dbias, dout, in, weight, mean, rstd);
}

}  // namespace ladder
