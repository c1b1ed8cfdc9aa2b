// The language of kernels, for g++: qualifiers, the coordinates of a thread, barriers, arithmetic.
#pragma once

#include <math.h>

#include <cmath>
#include <source_location>

#include "kernels/emulator/access.h"
#include "kernels/emulator/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// One thread block runs at a time, so all thread blocks can use the same shared memory.
#define __shared__ static

namespace ladder::emulator {

// The coordinates of the running thread in its grid.
struct Coordinates {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};
inline Coordinates coordinates{};

// Returns when every thread of the thread block has called it from `where`.
void block_barrier(std::source_location where);

}  // namespace ladder::emulator

// The compiler must keep these references, because a debugger looks for their names.
[[gnu::used]] inline const uint3& threadIdx = ladder::emulator::coordinates.thread;
[[gnu::used]] inline const uint3& blockIdx = ladder::emulator::coordinates.block;
[[gnu::used]] inline const dim3& blockDim = ladder::emulator::coordinates.block_dim;
[[gnu::used]] inline const dim3& gridDim = ladder::emulator::coordinates.grid_dim;
inline constexpr int warpSize = 32;

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  ladder::emulator::block_barrier(where);
}

// These order a thread's writes for other threads. Here threads take turns, so only observers are
// told.
inline void __threadfence() {
  if (ladder::emulator::is_observed) ladder::emulator::report_fence(true);
}
inline void __threadfence_block() {
  if (ladder::emulator::is_observed) ladder::emulator::report_fence(false);
}

// On a GPU this loads data that no thread of the grid writes through another cache.
template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}

// These compute 1 / sqrt(x).
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }

// Each of these is one operation, correctly rounded, that the compiler must not fuse with another.
// It does not, since everything is compiled with -ffp-contract=off.
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
