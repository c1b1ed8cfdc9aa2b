// Kernels that work element by element. All arguments of a call have the same shape, whatever it
// is.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace ladder {

// out[i] = value.
void fill(Stream& stream, TensorView out, double value);

// out[i] = a[i] + b[i]. out may be a or b.
void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b);

// out[i] = factor * in[i], with the factor rounded to the accumulation dtype. out may be in.
void scale(Stream& stream, TensorView out, ConstTensorView in, double factor);

// out[i] = factor * a[i] + b[i], with the factor rounded to the accumulation dtype. out may be a or
// b.
void add_scaled(Stream& stream, TensorView out, ConstTensorView a, double factor,
                ConstTensorView b);

// out[i] = in[i], rounded to nearest in the dtype of out. The two dtypes may differ.
void cast(Stream& stream, TensorView out, ConstTensorView in);

// out[i] = deviation times number (first + i) of the normal numbers that belong to `key`
// (random.h). It is one multiplication of an integer by a rounded factor, so all machines get the
// same bits. bf16 and fp16 get the numbers of fp32, rounded.
void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost fill_cost(ConstTensorView out) { return moving_cost(0, {}, {out}); }
inline Cost add_cost(ConstTensorView out) {
  return moving_cost(number_of(out.num_elements()), {out, out}, {out});
}
inline Cost scale_cost(ConstTensorView out) {
  return moving_cost(number_of(out.num_elements()), {out}, {out});
}
inline Cost add_scaled_cost(ConstTensorView out) {
  return moving_cost(2 * number_of(out.num_elements()), {out, out}, {out});
}
inline Cost cast_cost(ConstTensorView out, ConstTensorView in) {
  return moving_cost(0, {in}, {out});
}
inline Cost fill_normal_cost(ConstTensorView out) {
  return moving_cost(number_of(out.num_elements()), {}, {out});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::fill) fill;
decltype(ladder::add) add;
decltype(ladder::scale) scale;
decltype(ladder::add_scaled) add_scaled;
decltype(ladder::cast) cast;
decltype(ladder::fill_normal) fill_normal;
}  // namespace cpu

namespace cuda {
decltype(ladder::fill) fill;
decltype(ladder::add) add;
decltype(ladder::scale) scale;
decltype(ladder::add_scaled) add_scaled;
decltype(ladder::cast) cast;
decltype(ladder::fill_normal) fill_normal;
}  // namespace cuda

inline void fill(Stream& stream, TensorView out, double value) {
  const ArgumentCheck expect("fill", stream, "out", out, 0);
  run_body(expect, fill_cost(out), cpu::fill, cuda::fill, stream, out, value);
}

inline void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b) {
  const ArgumentCheck expect("add", stream, "out", out, 0);
  expect("a", a, out.shape());
  expect("b", b, out.shape());
  run_body(expect, add_cost(out), cpu::add, cuda::add, stream, out, a, b);
}

inline void scale(Stream& stream, TensorView out, ConstTensorView in, double factor) {
  const ArgumentCheck expect("scale", stream, "out", out, 0);
  expect("in", in, out.shape());
  run_body(expect, scale_cost(out), cpu::scale, cuda::scale, stream, out, in, factor);
}

inline void add_scaled(Stream& stream, TensorView out, ConstTensorView a, double factor,
                       ConstTensorView b) {
  const ArgumentCheck expect("add_scaled", stream, "out", out, 0);
  expect("a", a, out.shape());
  expect("b", b, out.shape());
  run_body(expect, add_scaled_cost(out), cpu::add_scaled, cuda::add_scaled, stream, out, a, factor,
           b);
}

inline void cast(Stream& stream, TensorView out, ConstTensorView in) {
  const ArgumentCheck expect_out("cast", stream, "out", out, 0);
  const ArgumentCheck expect_in("cast", stream, "in", in, 0);
  expect_in("in", in, out.shape());
  run_body(expect_out, cast_cost(out, in), cpu::cast, cuda::cast, stream, out, in);
}

inline void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first,
                        double deviation) {
  const ArgumentCheck expect("fill_normal", stream, "out", out, 0);
  run_body(expect, fill_normal_cost(out), cpu::fill_normal, cuda::fill_normal, stream, out, key,
           first, deviation);
}

}  // namespace ladder
