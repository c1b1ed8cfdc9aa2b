#include "kernels/elementwise.h"

#include "kernels/cpu/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void fill(Stream& stream, TensorView out, double value) {
  const ArgumentCheck expect("fill", stream, "out", out, 0);
  cpu::fill(out, value);
}

void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b) {
  const ArgumentCheck expect("add", stream, "out", out, 0);
  expect("a", a, out.shape());
  expect("b", b, out.shape());
  cpu::add(out, a, b);
}

void scale(Stream& stream, TensorView out, ConstTensorView in, double factor) {
  const ArgumentCheck expect("scale", stream, "out", out, 0);
  expect("in", in, out.shape());
  cpu::scale(out, in, factor);
}

void cast(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect_out("cast", stream, "out", out, 0);
  const ArgumentCheck expect_in("cast", stream, "in", in, 0);
  expect_in("in", in, out.shape());
  cpu::cast(out, in);
}

void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation) {
  const ArgumentCheck expect("fill_normal", stream, "out", out, 0);
  cpu::fill_normal(out, key, first, deviation);
}

}  // namespace ladder
