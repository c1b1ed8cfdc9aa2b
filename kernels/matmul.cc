#include "kernels/matmul.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void matmul(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b,
            MatmulOptions options) {
  const ArgumentCheck expect("matmul", stream, "a", a, 2);
  const size_t m = a.shape()[options.transpose_a ? 1 : 0];
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  // b has one free extent, the columns of the product; what b says of it binds out.
  const size_t n = b.shape().num_dims() == 2 ? b.shape()[options.transpose_b ? 0 : 1] : 0;
  expect("b", b, options.transpose_b ? Shape{n, k} : Shape{k, n});
  expect("out", out, {a.dtype(), accumulation_dtype(a.dtype())}, {m, n});
  check(m > 0 && n > 0 && k > 0, "matmul: an extent is zero");
  if (stream.device() == DeviceType::cpu) return cpu::matmul(out, a, b, options);
  cuda::matmul(stream, out, a, b, options);
}

void set_tf32(bool on) { cuda::set_tf32(on); }

void add_bias(Stream& stream, TensorView out, ConstTensorView bias) {
  const ArgumentCheck expect("add_bias", stream, "out", out, 2);
  expect("bias", bias, {out.shape()[1]});
  if (stream.device() == DeviceType::cpu) return cpu::add_bias(out, bias);
  cuda::add_bias(stream, out, bias);
}

void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout) {
  const ArgumentCheck expect("bias_backward", stream, "dout", dout, 2);
  expect.accumulated("dbias", dbias, {dout.shape()[1]});
  if (stream.device() == DeviceType::cpu) return cpu::bias_backward(dbias, dout);
  cuda::bias_backward(stream, dbias, dout);
}

}  // namespace ladder
