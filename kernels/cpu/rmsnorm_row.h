// RMSNorm of one row, or of one head of it, in the calling thread.
#pragma once

#include <cmath>

#include "kernels/cpu/map.h"

namespace ladder::cpu {

// Computes one row of the output, and returns its rstd. out may be in.
template <class T, class A = Accumulate<T>>
A rmsnorm_row(size_t n, T* out, const T* in, const T* weight, A epsilon) {
  const A squares = lane_sum<A>(
      n, [](auto x) { return x * x; }, in);
  const A rstd = A{1} / std::sqrt(A{1} / static_cast<A>(n) * squares + epsilon);
  map_in_thread([rstd](auto x, auto w) { return x * rstd * w; }, n, out, in, weight);
  return rstd;
}

// Returns the mean over a row of g * n, where n = in * rstd and g = dout * weight.
template <class T, class A = Accumulate<T>>
A rmsnorm_mean_gn(size_t n, const T* dout, const T* in, const T* weight, A rstd) {
  return A{1} / static_cast<A>(n) *
         lane_sum<A>(
             n, [rstd](auto d, auto w, auto x) { return d * w * (x * rstd); }, dout, weight, in);
}

}  // namespace ladder::cpu
