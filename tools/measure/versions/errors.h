// How far results of the versions (kernels/cuda/versions) are from plain loops in double.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cpu/plain_attention.h"
#include "kernels/runtime/dtype.h"

namespace ladder::versions {

// Both return the largest |got - expected| as a part of what rounding may do at most. So at most 1
// is right; NaN gives infinity. The bounds are derived in errors.cc.

// c (M, N) is bf16 and ought to be a (M, K) b (K, N). Only rows first_row, first_row + step, ... of
// c are looked at.
double product_error(std::span<const double> c, std::span<const double> a,
                     std::span<const double> b, std::size_t k, std::size_t first_row = 0,
                     std::size_t step = 1);

// `out` is attention_forward() (kernels/attention.h) of qkv, stored as `dtype`. `factors` is bf16
// if the exponentials are rounded to it before they are multiplied with v.
double attention_error(const cpu::AttentionSizes& sizes, DType dtype, DType factors,
                       std::span<const double> out, std::span<const double> logsumexp,
                       std::span<const double> qkv);

}  // namespace ladder::versions
