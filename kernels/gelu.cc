#include "kernels/gelu.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void gelu_forward(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect("gelu_forward", stream, "out", out, 0);
  expect("in", in, out.shape());
  if (stream.device() == DeviceType::cpu) return cpu::gelu_forward(out, in);
  cuda::gelu_forward(stream, out, in);
}

void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in) {
  const ArgumentCheck expect("gelu_backward", stream, "din", din, 0);
  expect("dout", dout, din.shape());
  expect("in", in, din.shape());
  if (stream.device() == DeviceType::cpu) return cpu::gelu_backward(din, dout, in);
  cuda::gelu_backward(stream, din, dout, in);
}

}  // namespace ladder
