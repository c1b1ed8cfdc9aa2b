// Where the vectors of attention's heads are in memory. Read kernels/cpu/plain_attention.h first.
//
// Every token has a vector of `size` (HS) elements for each of num_heads (NH) query heads, side by
// side: C = NH HS elements. It has keys for num_kv_heads (NKV) heads and as many values: K = NKV HS
// elements each. A qkv (B, T, C + 2 K) has such rows for each token: q, k, v. A `group` of NH / NKV
// query heads shares keys and values. Distances are in elements. A head without a sequence counts
// through all B sequences: a query head is b * NH + h, a key head b * NKV + h. So query head n uses
// key head n / group.
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

// All heads of a qkv (B, T, C + 2 K) or an out (B, T, C), for kernels that take every token.
struct Heads {
  size_t tokens, num_heads, size;  // T, NH, HS
  size_t num_kv_heads = num_heads;
  unsigned group = 1;

  // Return the vectors of a query head in qkv (`which` is 0 for q, 1 and 2 for the k and v that it
  // uses), or in out.
  template <class T>
  __device__ Vectors<T> in_qkv(T* qkv, size_t head, unsigned which) const {
    const size_t b = sequence_of(head), h = head - b * num_heads;
    const size_t stride = (num_heads + 2 * num_kv_heads) * size;
    const size_t column =
        which == 0 ? h : num_heads + (which - 1) * num_kv_heads + static_cast<unsigned>(h) / group;
    return {qkv + b * tokens * stride + column * size, stride};
  }
  template <class T>
  __device__ Vectors<T> in_out(T* out, size_t head) const {
    const size_t columns = num_heads * size, b = sequence_of(head), h = head - b * num_heads;
    return {out + b * tokens * columns + h * size, columns};
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
  size_t queries, keys;  // of a head: how many take part
  size_t num_heads, num_kv_heads, size;
  unsigned group;
  unsigned all_heads;               // those whose tiles thread blocks own: B NH, or B NKV of keys
  size_t query_tokens, key_tokens;  // the tokens of a sequence in memory, used or not
  size_t q_stride, kv_stride;       // from token to token: C + 2 K in a qkv, 2 K in a kv
  bool causal;                      // true: query i sees keys 0 to i; false: all keys
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

  // Return the vectors of a query head in a tensor that has one for each query (q, dq, out, dout;
  // `stride` is from token to token), or of a key head in one that has one for each key (k, v, dk,
  // dv). `first`: see above.
  template <class T>
  __device__ Vectors<T> of_queries(T* first, size_t stride, unsigned head) const {
    return {first + head / num_heads * query_tokens * stride + head % num_heads * size, stride};
  }
  template <class T>
  __device__ Vectors<T> of_keys(T* first, unsigned head) const {
    const size_t sequence = head / num_kv_heads * key_tokens * kv_stride;
    return {first + sequence + head % num_kv_heads * size, kv_stride};
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
