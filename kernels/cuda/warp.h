// Helpers of kernels: the indices of a thread, and sums and maxima over the threads of a warp or of
// a thread block. Their order depends only on the number of threads, so two runs give the same
// bits.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "kernels/cuda/launch.h"
#include "kernels/runtime/dtype.h"

namespace ladder::cuda {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxWarps = 32;  // the most warps in a thread block

// Returns the shape that gives each of n items a thread. The last thread block may have more
// threads.
inline LaunchShape threads_for(size_t n, unsigned threads_per_block = 256) {
  const size_t blocks = (n + threads_per_block - 1) / threads_per_block;
  return {dim3(static_cast<unsigned>(blocks)), dim3(threads_per_block)};
}

// These are for one-dimensional thread blocks and grids.
__device__ inline size_t thread_index() {  // among all threads of the grid
  return size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline size_t num_threads() { return size_t{gridDim.x} * blockDim.x; }
__device__ inline unsigned lane_index() { return threadIdx.x % kWarpSize; }
__device__ inline unsigned warp_index() { return threadIdx.x / kWarpSize; }  // in its thread block
__device__ inline unsigned num_warps() { return blockDim.x / kWarpSize; }    // of a thread block

// Combines the values of each group of kLanes neighbouring lanes. All lanes of the group get the
// result, with the same bits: in each round both partners combine the same two values, so `combine`
// must not depend on their order. REQUIRES: all 32 lanes take part.
template <unsigned kLanes = kWarpSize, class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (unsigned partner = kLanes / 2; partner > 0; partner /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, partner));
  }
  return value;
}

// Combines the values of all threads of a thread block: those of each warp, and then the warps'
// results in order. All threads get the result. REQUIRES: all threads of the thread block take
// part, and blockDim.x is a multiple of 32.
template <class T, class Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T of_warp[kMaxWarps];
  value = warp_reduce(value, combine);
  if (lane_index() == 0) of_warp[warp_index()] = value;
  __syncthreads();
  T total = of_warp[0];
  for (unsigned warp = 1; warp < num_warps(); ++warp) total = combine(total, of_warp[warp]);
  __syncthreads();  // of_warp may be written again
  return total;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {  // ignores NaN
  template <class T>
  __device__ T operator()(T a, T b) const {
    return std::fmax(a, b);
  }
};

template <class T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, Sum());
}
template <class T>
__device__ T warp_max(T value) {
  return warp_reduce(value, Maximum());
}
template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, Sum());
}
template <class T>
__device__ T block_max(T value) {
  return block_reduce(value, Maximum());
}

}  // namespace ladder::cuda
