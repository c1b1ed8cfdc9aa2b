#include "kernels/elementwise.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void fill(Stream& stream, TensorView out, double value) {
  const ArgumentCheck expect("fill", stream, "out", out, 0);
  if (stream.device() == DeviceType::cpu) return cpu::fill(out, value);
  cuda::fill(stream, out, value);
}

void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b) {
  const ArgumentCheck expect("add", stream, "out", out, 0);
  expect("a", a, out.shape());
  expect("b", b, out.shape());
  if (stream.device() == DeviceType::cpu) return cpu::add(out, a, b);
  cuda::add(stream, out, a, b);
}

void scale(Stream& stream, TensorView out, ConstTensorView in, double factor) {
  const ArgumentCheck expect("scale", stream, "out", out, 0);
  expect("in", in, out.shape());
  if (stream.device() == DeviceType::cpu) return cpu::scale(out, in, factor);
  cuda::scale(stream, out, in, factor);
}

void cast(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect_out("cast", stream, "out", out, 0);
  const ArgumentCheck expect_in("cast", stream, "in", in, 0);
  expect_in("in", in, out.shape());
  if (stream.device() == DeviceType::cpu) return cpu::cast(out, in);
  cuda::cast(stream, out, in);
}

void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation) {
  const ArgumentCheck expect("fill_normal", stream, "out", out, 0);
  if (stream.device() == DeviceType::cpu) return cpu::fill_normal(out, key, first, deviation);
  cuda::fill_normal(stream, out, key, first, deviation);
}

}  // namespace ladder
