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

// All tokens of a qkv (B, T, 3 C) or an out (B, T, C).
struct Heads {
  size_t tokens, num_heads, size;

  // Return the vectors of a head, counted through all sequences. Parts 0, 1 and 2 are q, k and v.
  template <class T>
  __device__ Vectors<T> in_qkv(T* qkv, size_t head, unsigned part) const {
    const size_t hidden = num_heads * size, b = sequence_of(head), h = head - b * num_heads;
    return {qkv + b * tokens * 3 * hidden + part * hidden + h * size, 3 * hidden};
  }
  template <class T>
  __device__ Vectors<T> in_out(T* out, size_t head) const {
    const size_t hidden = num_heads * size, b = sequence_of(head), h = head - b * num_heads;
    return {out + b * tokens * hidden + h * size, hidden};
  }
  // There are less than 2^32 heads, as there are thread blocks: GPUs divide such numbers faster.
  __device__ size_t sequence_of(size_t head) const {
    return static_cast<unsigned>(head) / static_cast<unsigned>(num_heads);
  }
};

// Queries and keys that may be parts of the tokens in memory. Pointers point to the vector of the
// first query, or key, of head 0 of sequence 0.
struct HeadBlock {
  size_t queries, keys, num_heads, size;
  unsigned all_heads;               // of all sequences
  size_t query_tokens, key_tokens;  // the tokens of a sequence in memory, used or not
  size_t q_stride, kv_stride;
  bool causal;  // true: query i sees keys 0 to i; false: all keys
  bool packed;  // whether every vector consists of whole packs, of as many elements as a tile's

  // Return this thread block's head, counted through all sequences, and the number of its tile.
  // Both are in blockIdx.x: CUDA allows 65,535 thread blocks in y, and 2^31 - 1 in x. Tile 0 of all
  // heads starts first; the second function counts from the last tile.
  __device__ unsigned head() const { return blockIdx.x % all_heads; }
  __device__ size_t tile() const { return blockIdx.x / all_heads; }
  __device__ size_t tile_from_end() const { return (gridDim.x - 1 - blockIdx.x) / all_heads; }

  // Return the vectors of this thread block's head. `stride` is that from token to token.
  template <class T>
  __device__ Vectors<T> of_queries(T* first, size_t stride) const {
    return {first + at_head(query_tokens * stride), stride};
  }
  template <class T>
  __device__ Vectors<T> of_keys(T* first) const {
    return {first + at_head(key_tokens * kv_stride), kv_stride};
  }
  __device__ size_t at_head(size_t sequence_stride) const {
    return head() / num_heads * sequence_stride + head() % num_heads * size;
  }
  __device__ size_t hidden() const { return num_heads * size; }
  __device__ bool sees(size_t query, size_t key) const {
    return key < keys && (!causal || key <= query);
  }
};

// Returns what the scores are multiplied with.
template <class A>
A scale_of(size_t head_size) {
  return A{1} / std::sqrt(static_cast<A>(head_size));
}

}  // namespace ladder::cuda
