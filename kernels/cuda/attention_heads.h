// Where the vectors of attention's heads are in memory.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

namespace ladder::cuda {

// The vectors of one head of one sequence. That of token t is at first + t * stride.
template <class T>
struct Vectors {
  T* first;
  size_t stride;
};

struct Heads {
  size_t tokens, num_heads, size;
  bool packed;  // whether every vector consists of whole packs, of as many elements as a tile's

  // Returns the vectors of this thread block's head. Parts 0, 1 and 2 are q, k and v.
  template <class T>
  __device__ Vectors<T> in_qkv(T* qkv, unsigned part) const {
    const size_t hidden = num_heads * size, b = blockIdx.x / num_heads, h = blockIdx.x % num_heads;
    return {qkv + b * tokens * 3 * hidden + part * hidden + h * size, 3 * hidden};
  }
  template <class T>
  __device__ Vectors<T> in_out(T* out) const {
    const size_t hidden = num_heads * size, b = blockIdx.x / num_heads, h = blockIdx.x % num_heads;
    return {out + b * tokens * hidden + h * size, hidden};
  }
};

// Returns what the scores are multiplied with.
template <class A>
A scale_of(const Heads& heads) {
  return A{1} / std::sqrt(static_cast<A>(heads.size));
}

}  // namespace ladder::cuda
