// exp for whole vectors, with an error of at most 4 ulp. It is in glibc's libmvec, whose headers
// offer it only under -ffast-math, which this project never uses; so we declare it ourselves. On
// aarch64 it is the scalar function (notes/decisions.md).
//
// The compiler vectorizes a loop over it, except for the last few elements, which take the scalar
// function. The two may differ in the last bit. So loops start at fixed indices (a row, a tile of
// 1,024 elements), and never where a thread's share happens to start.
#pragma once

#include <cmath>

#include "kernels/cpu/lanes.h"

#ifdef __x86_64__
extern "C" {
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) double exp(double) noexcept;
__m256 _ZGVdN8v_expf(__m256) noexcept;  // libmvec's function for eight floats
}
#endif

namespace ladder::cpu {

#ifdef __x86_64__

inline float vector_exp(float x) { return ::expf(x); }
inline double vector_exp(double x) { return ::exp(x); }
inline Lanes<float>::Vector vector_exp(Lanes<float>::Vector x) { return ::_ZGVdN8v_expf(x); }
#else
inline float vector_exp(float x) { return std::exp(x); }
inline double vector_exp(double x) { return std::exp(x); }
inline Lanes<float>::Vector vector_exp(Lanes<float>::Vector x) {
  for (size_t l = 0; l < Lanes<float>::kCount; ++l) x[l] = std::exp(x[l]);
  return x;
}
#endif

}  // namespace ladder::cpu
