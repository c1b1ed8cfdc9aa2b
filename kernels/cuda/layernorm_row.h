// What a warp has of a row, for layernorm and RMSNorm.
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
  static constexpr unsigned kElements = N;  // of a pack
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
  // Returns pack p, which begins at element i.
  __device__ const Pack<A, N>& at(unsigned p, size_t) const { return pack[p]; }
};

// Leaves the sums of this thread block's rows as part blockIdx.x of those of all rows
// (column_parts.h). A lane has its warp's in own[s][p], for pack p of its columns; those of the
// warps are added in order. REQUIRES: all threads of the thread block take part, and its dynamic
// shared memory, which is overwritten, has kSums * n floats.
template <class Lane, unsigned kSums, unsigned kPacks, unsigned N>
__device__ void write_part(float* parts, const float (&own)[kSums][kPacks][N], size_t n) {
  __syncthreads();
  float* const totals = dynamic_shared<float>();
  for (unsigned warp = 0; warp < num_warps(); ++warp) {
    if (warp == warp_index()) {
      const auto add_to = [warp](float* to, const float(&of_warp)[N]) {
        for (unsigned k = 0; k < N; k += 4) {
          auto sum = warp == 0 ? Pack<float, 4>{} : load<4>(to + k);
          for (unsigned j = 0; j < 4; ++j) sum.element[j] += of_warp[k + j];
          store(to + k, sum);
        }
      };
      Lane::for_each(n, [&](unsigned p, size_t i) {
#pragma unroll
        for (unsigned s = 0; s < kSums; ++s) add_to(totals + s * n + i, own[s][p]);
      });
    }
    __syncthreads();
  }
  for (size_t i = threadIdx.x; i < kSums * n; i += blockDim.x) {
    parts[blockIdx.x * kSums * n + i] = totals[i];
  }
}

// The most thread blocks that write parts: two for each multiprocessor of an H100. More would write
// more sums.
inline constexpr size_t kMostParts = 256;

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
