// What the simple kernels of attention have in common besides their tiles: how they are launched,
// and how a thread stores its sums.
#pragma once

#include "kernels/attention_of_tile.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {

// The thread blocks that run at the same time on a multiprocessor, if the tiles fit its shared
// memory: one loads while the other computes. It also means that a thread may use 128 registers,
// which is enough for its sums.
inline constexpr unsigned kBlocksOfSm = 2;

// Stores the sums as elements d0, ... of the vectors of the owned tokens, or adds them.
template <class Tiling, bool kAdds, class T>
__device__ void store_sums(const Vectors<T>& to, size_t tokens, size_t t0, size_t d0,
                           const HeadTile& heads, const typename Tiling::Sums& sums) {
  for (unsigned i = 0; i < Tiling::kRows; ++i) {
    const size_t t = t0 + Tiling::row(i);
    for (unsigned c = 0; c < Tiling::kColumns; ++c) {
      const size_t d = d0 + Tiling::column(c);
      if (t >= tokens || d >= heads.size) continue;
      T& element = to.first[t * to.stride + d];
      if constexpr (kAdds) {
        element += sums[i][c];
      } else {
        element = static_cast<T>(sums[i][c]);
      }
    }
  }
}

// Returns the launch shape for thread blocks that own tiles of `tokens` tokens. A thread block has
// `num_tiles` tiles of vectors in shared memory, and one of scores.
template <class Tiling>
LaunchShape shape_of(const HeadTile& heads, size_t tokens, size_t num_tiles) {
  const auto blocks = [](size_t n, size_t each) {
    return static_cast<unsigned>((n + each - 1) / each);
  };
  return {dim3(heads.all_heads * blocks(tokens, Tiling::kTile), blocks(heads.size, Tiling::kWidth)),
          dim3(kThreads),
          (num_tiles * Tiling::kElements + Tiling::kScoreElements) * sizeof(typename Tiling::A)};
}

// Calls function(tiling) with the narrowest tiling that holds a whole head, or with the widest one.
template <class A, class Function>
void dispatch_tiling(size_t head_size, Function&& function) {
  if (head_size <= 32) return function(Tiling<A, 32>());
  if (head_size <= 64) return function(Tiling<A, 64>());
  function(Tiling<A, 128>());
}

// Returns the description of all tokens of a qkv (B, T, C + 2 K), for kernels that own queries. The
// vectors at the addresses go into tiles of A.
template <class A, class... T>
HeadTile heads_of_qkv(size_t batch, size_t tokens, const AttentionHeads& heads, AttentionMask mask,
                      const T*... at) {
  return {.queries = tokens,
          .keys = tokens,
          .num_heads = heads.num_heads,
          .num_kv_heads = heads.num_kv_heads,
          .size = heads.size,
          .group = static_cast<unsigned>(heads.group()),
          .all_heads = static_cast<unsigned>(batch * heads.num_heads),
          .query_tokens = tokens,
          .key_tokens = tokens,
          .q_stride = heads.qkv_columns(),
          .kv_stride = heads.qkv_columns(),
          .causal = mask == AttentionMask::causal,
          .packed = heads.size % kPack<A> == 0 && packs_are_aligned<kPack<A>>(at...)};
}

// Returns the description of a block whose queries are in a qkv (B, query_tokens, C + 2 K), its
// keys in a kv (B, key_tokens, 2 K).
template <class A, class... T>
HeadTile heads_of_block(const ScoreTile& block, size_t batch, size_t query_tokens,
                        size_t key_tokens, const AttentionHeads& heads, const T*... at) {
  HeadTile tile = heads_of_qkv<A>(batch, query_tokens, heads, {}, at...);
  tile.queries = block.num_queries;
  tile.keys = block.num_keys;
  tile.key_tokens = key_tokens;
  tile.kv_stride = 2 * heads.key_columns();
  tile.causal = block.causal;
  return tile;
}

}  // namespace ladder::cuda
