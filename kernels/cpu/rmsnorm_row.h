// RMSNorm of one row, or of one head of it, in the calling thread.
#pragma once

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {

// Returns the mean of the squares of a row.
template <class T, class A = Accumulate<T>>
A mean_square(size_t n, const T* in) {
  return A{1} / static_cast<A>(n) *
         lane_sum<A>(
             n, [](auto x) { return x * x; }, in);
}

// Computes one row of the output. out may be in.
template <class T, class A = Accumulate<T>>
void rmsnorm_row(size_t n, T* out, const T* in, const T* weight, A rstd) {
  map_in_thread([rstd](auto x, auto w) { return x * rstd * w; }, n, out, in, weight);
}

// Returns the mean over a row of g * n, where n = in * rstd and g = dout * weight.
template <class T, class A = Accumulate<T>>
A rmsnorm_mean_gn(size_t n, const T* dout, const T* in, const T* weight, A rstd) {
  return A{1} / static_cast<A>(n) *
         lane_sum<A>(
             n, [rstd](auto d, auto w, auto x) { return d * w * (x * rstd); }, dout, weight, in);
}

}  // namespace ladder::cpu
