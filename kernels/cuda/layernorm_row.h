// What a warp has of a row, for layernorm.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/pack.h"

namespace ladder::cuda {

inline constexpr unsigned kWarpsOfBlock = 8;

// Rows of up to 8 packs a lane (2048 elements of bf16) are kept in registers, so memory is read
// once. A warp then computes several rows with the same weights: so many that the GPU has four
// thread blocks for each multiprocessor, if there are enough rows.
inline constexpr unsigned kBlocksOfGrid = 512;

// What a lane has of a row: packs lane, lane + 32, ... of N elements, as type A.
template <class A, unsigned N, unsigned kPacks>
struct LaneRow {
  Pack<A, N> pack[kPacks];

  // Calls body(p, i) for pack p of the lane, which begins at element i.
  template <class Body>
  static __device__ void for_each(size_t n, Body body) {
#pragma unroll
    for (unsigned p = 0; p < kPacks; ++p) {
      const size_t i = (p * kWarpSize + lane_index()) * N;
      if (i < n) body(p, i);
    }
  }
  template <class T>
  __device__ LaneRow(const T* row, size_t n) {
    for_each(n, [&](unsigned p, size_t i) {
      if constexpr (std::is_same_v<T, A>) {
        pack[p] = load_as_is<N>(row + i);
      } else {
        pack[p] = load<N>(row + i);
      }
    });
  }
};

// Returns the shape with one warp for each row, or with the most thread blocks.
inline LaunchShape warps_of(size_t rows,
                            size_t most_blocks = std::numeric_limits<unsigned>::max()) {
  const size_t blocks = std::min((rows + kWarpsOfBlock - 1) / kWarpsOfBlock, most_blocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kWarpsOfBlock * kWarpSize)};
}

// Returns whether a warp can have a row of n elements in registers.
template <class T>
bool fits_registers(size_t n) {
  return n <= 8 * kWarpSize * kPack<T>;
}

// Calls function(constant) with the number of packs that a lane has of a row of n elements, or with
// a somewhat larger one. REQUIRES: the row fits registers.
template <class T, class Function>
void dispatch_packs(size_t n, Function function) {
  constexpr size_t kWarpElements = kWarpSize * kPack<T>;
  if (n > 4 * kWarpElements) return function(std::integral_constant<unsigned, 8>());
  if (n > 3 * kWarpElements) return function(std::integral_constant<unsigned, 4>());
  function(std::integral_constant<unsigned, 3>());
}

// Calls in_registers(constant) as dispatch_packs() does, or from_memory() if rows do not consist of
// packs, or do not fit registers.
template <class T, class InRegisters, class FromMemory>
void dispatch_row(bool in_packs, size_t n, InRegisters in_registers, FromMemory from_memory) {
  if (!in_packs || !fits_registers<T>(n)) return from_memory();
  dispatch_packs<T>(n, in_registers);
}

}  // namespace ladder::cuda
