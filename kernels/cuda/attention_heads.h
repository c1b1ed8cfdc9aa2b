// Where the vectors of attention's heads are in memory. Read kernels/cpu/plain_attention.h first.
//
// Every token has a vector of `size` (HS) elements for each of num_heads (NH) heads, side by side:
// C = NH HS elements. A qkv (B, T, 3 C) has three such rows a token: q, k, v. Distances are in
// elements. "Head" without a sequence counts through all B sequences: head = b * NH + h.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

namespace ladder::cuda {

// The vectors of one head of one sequence. Element d of token t is first[t * stride + d].
template <class T>
struct Vectors {
  T* first;
  size_t stride;
};

// All heads of a qkv (B, T, 3 C) or an out (B, T, C), for kernels that take every token.
struct Heads {
  size_t tokens, num_heads, size;  // T, NH, HS

  // Return the vectors of a head in qkv (`which` is 0 for q, 1 for k, 2 for v), or in out.
  template <class T>
  __device__ Vectors<T> in_qkv(T* qkv, size_t head, unsigned which) const {
    const size_t hidden = num_heads * size, b = sequence_of(head), h = head - b * num_heads;
    return {qkv + b * tokens * 3 * hidden + which * hidden + h * size, 3 * hidden};
  }
  template <class T>
  __device__ Vectors<T> in_out(T* out, size_t head) const {
    const size_t hidden = num_heads * size, b = sequence_of(head), h = head - b * num_heads;
    return {out + b * tokens * hidden + h * size, hidden};
  }
  // Returns b. GPUs divide 32-bit numbers faster, and there are fewer than 2^32 heads, because
  // there are fewer thread blocks.
  __device__ size_t sequence_of(size_t head) const {
    return static_cast<unsigned>(head) / static_cast<unsigned>(num_heads);
  }
};

// What an attention kernel computes: some queries against some keys, for all heads. In
// attention_of_tile.h these are a range of the tokens in memory; then the kernel is given pointers
// to the vector of the first query, or key, that takes part, in head 0 of sequence 0.
struct HeadTile {
  size_t queries, keys, num_heads, size;  // of a head: how many take part; NH, HS
  unsigned all_heads;                     // B NH
  size_t query_tokens, key_tokens;        // the tokens of a sequence in memory, used or not
  size_t q_stride, kv_stride;             // from token to token: 3 C in a qkv, 2 C in a kv
  bool causal;                            // true: query i sees keys 0 to i; false: all keys
  // Whether threads may load whole packs (pack.h) of kPack<A> elements: HS is a multiple of that,
  // and the kernel's pointers are aligned to a pack. So no pack crosses the end of a vector. If it
  // is false, threads load single elements.
  bool packed;

  // A thread block has one tile of one head. Return the head and the tile's number. Both are coded
  // in blockIdx.x, since CUDA allows 2^31 - 1 thread blocks in x but 65,535 in y. Tile 0 of all
  // heads starts first. Causal queries at the end see the most keys, so their kernels count tiles
  // from the end.
  __device__ unsigned head() const { return blockIdx.x % all_heads; }
  __device__ size_t tile() const { return blockIdx.x / all_heads; }
  __device__ size_t tile_from_end() const { return (gridDim.x - 1 - blockIdx.x) / all_heads; }

  // Return the vectors of this thread block's head in a tensor that has one for each query (q, dq,
  // out, dout; `stride` is from token to token) or for each key (k, v, dk, dv). `first`: see above.
  template <class T>
  __device__ Vectors<T> of_queries(T* first, size_t stride) const {
    return {first + at_head(query_tokens * stride), stride};
  }
  template <class T>
  __device__ Vectors<T> of_keys(T* first) const {
    return {first + at_head(key_tokens * kv_stride), kv_stride};
  }
  // Returns where this head's vectors begin, if sequences are this many elements apart.
  __device__ size_t at_head(size_t sequence_stride) const {
    return head() / num_heads * sequence_stride + head() % num_heads * size;
  }
  __device__ size_t hidden() const { return num_heads * size; }
  // Returns whether a query sees a key: that there is one, and the mask. Both count those that take
  // part.
  __device__ bool sees(size_t query, size_t key) const {
    return key < keys && (!causal || key <= query);
  }
};

// Returns 1 / sqrt(HS), with which scores q k^T are multiplied.
template <class A>
A scale_of(size_t head_size) {
  return A{1} / std::sqrt(static_cast<A>(head_size));
}

}  // namespace ladder::cuda
