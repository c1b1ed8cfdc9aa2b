#include "kernels/layernorm.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias) {
  const ArgumentCheck expect("layernorm_forward", stream, "out", out, 2);
  const size_t rows = out.shape()[0], n = out.shape()[1];
  expect.accumulated("mean", mean, {rows});
  expect.accumulated("rstd", rstd, {rows});
  expect("in", in, {rows, n});
  expect("weight", weight, {n});
  expect("bias", bias, {n});
  if (stream.device() == DeviceType::cpu) {
    return cpu::layernorm_forward(out, mean, rstd, in, weight, bias);
  }
  cuda::layernorm_forward(stream, out, mean, rstd, in, weight, bias);
}

void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
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
  if (stream.device() == DeviceType::cpu) {
    return cpu::layernorm_backward(din, dweight, dbias, dout, in, weight, mean, rstd);
  }
  cuda::layernorm_backward(stream, din, dweight, dbias, dout, in, weight, mean, rstd);
}

}  // namespace ladder
