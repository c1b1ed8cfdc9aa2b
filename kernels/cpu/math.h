// exp that the compiler may call on whole vectors: glibc's libmvec has it, and its own headers
// offer it under -ffast-math only, which this project never uses. Error <= 4 ulp.
//
// A loop over them is vectorized but for its last few elements, which take the scalar function;
// the two may differ in the last bit. So loops start at fixed indices (a row, a block of 1,024
// elements), never where a thread's share happens to start.
#pragma once

#include <cmath>

#include "kernels/cpu/lanes.h"

extern "C" {
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) double exp(double) noexcept;
__m256 _ZGVdN8v_expf(__m256) noexcept;  // what the compiler calls for eight of expf
}

namespace ladder::cpu {

inline float vector_exp(float x) { return ::expf(x); }
inline double vector_exp(double x) { return ::exp(x); }
inline Lanes<float>::Vector vector_exp(Lanes<float>::Vector x) { return ::_ZGVdN8v_expf(x); }

}  // namespace ladder::cpu
