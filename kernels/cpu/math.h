// exp that the compiler may call on whole vectors: glibc's libmvec has it, and its own headers
// offer it under -ffast-math only, which this project never uses. Error <= 4 ulp.
//
// A loop over them is vectorized but for its last few elements, which take the scalar function;
// the two may differ in the last bit. So loops start at fixed indices (a row, a block of 1,024
// elements), never where a thread's share happens to start.
#pragma once

#include <cmath>

extern "C" {
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) double exp(double) noexcept;
}

namespace ladder::cpu {

inline float vector_exp(float x) { return ::expf(x); }
inline double vector_exp(double x) { return ::exp(x); }

}  // namespace ladder::cpu
