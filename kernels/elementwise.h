// Element by element. Any shape, the same for all arguments. Rules: kernels/matmul.h.
#pragma once

#include <cstdint>

#include "kernels/runtime/stream.h"

namespace ladder {

// out[i] = value.
void fill(Stream& stream, TensorView out, double value);

// out[i] = a[i] + b[i]. out may be a or b.
void add(Stream& stream, TensorView out, ConstTensorView a, ConstTensorView b);

// out[i] = factor * in[i], with the factor rounded to a. out may be in.
void scale(Stream& stream, TensorView out, ConstTensorView in, double factor);

// out[i] = in[i], rounded to out's dtype, to nearest. out and in each have a dtype of their own.
void cast(Stream& stream, TensorView out, ConstTensorView in);

// out[i] = element (first + i) of the normal numbers of `key`, times `deviation`: one
// multiplication of an integer by a rounded factor (random.h), so the same bits everywhere. In bf16
// and fp16 fp32's numbers, rounded.
void fill_normal(Stream& stream, TensorView out, uint64_t key, uint64_t first, double deviation);

}  // namespace ladder
