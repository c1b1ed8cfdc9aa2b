#include <limits>

#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/attention_mma.h"

namespace ladder::cuda {
namespace {

// Sets the results of the owned tile of queries. `out` has a token's heads side by side.
template <class T, class Tiling, class Out, class A = typename Tiling::A>
__global__ void __launch_bounds__(kThreads, kBlocksOfSm)
    forward_kernel(Out* out, A* logsumexp, const T* q_of_all, const T* k_of_all, const T* v_of_all,
                   HeadTile heads, A scale) {
  constexpr unsigned kTile = Tiling::kTile, kRows = Tiling::kRows;
  A* const q = dynamic_shared<A>();
  A *const k = q + Tiling::kElements, *const v = k + Tiling::kElements;
  A* const weights = v + Tiling::kElements;
  // With a causal mask the last tiles see the most keys, so they start first.
  const size_t q0 = heads.tile_from_end() * kTile;
  const unsigned head = heads.head(), key_head = head / heads.group;
  const auto queries = heads.of_queries(q_of_all, heads.q_stride, head);
  const auto keys = heads.of_keys(k_of_all, key_head), values = heads.of_keys(v_of_all, key_head);
  const size_t end = heads.causal ? q0 + 1 : heads.keys;
  typename Tiling::Sums sums = {};
  A maximum[kRows], total[kRows] = {};  // the totals are over the thread's columns only
  for (A& m : maximum) m = std::numeric_limits<A>::lowest();
  for (size_t k0 = 0; k0 < end; k0 += kTile) {
    typename Tiling::Scores scores = {};
    // This thread block's own slice of the head comes last, since v needs it.
    for (unsigned slice = 1; slice <= gridDim.y; ++slice) {
      const size_t d0 = (blockIdx.y + slice) % gridDim.y * size_t{Tiling::kWidth};
      __syncthreads();  // the tiles have been read
      if (k0 == 0 || gridDim.y > 1) load_tile<Tiling>(q, queries, heads.queries, q0, d0, heads);
      load_tile<Tiling>(k, keys, heads.keys, k0, d0, heads);
      if (slice == gridDim.y) load_tile<Tiling>(v, values, heads.keys, k0, d0, heads);
      __syncthreads();
      add_scores<Tiling>(scores, q, k);
    }
    for (unsigned i = 0; i < kRows; ++i) {
      const size_t query = q0 + Tiling::row(i);
      A largest = maximum[i];
      for (unsigned j = 0; j < kRows; ++j) {
        scores[i][j] *= scale;
        if (heads.sees(query, k0 + Tiling::score_column(j)))
          largest = std::fmax(largest, scores[i][j]);
      }
      largest = warp_reduce<kSide>(largest, Maximum());
      const A correction = std::exp(maximum[i] - largest);
      maximum[i] = largest;
      total[i] *= correction;
      for (unsigned j = 0; j < kRows; ++j) {
        const bool visible = heads.sees(query, k0 + Tiling::score_column(j));
        scores[i][j] = visible ? std::exp(scores[i][j] - largest) : A{0};
        total[i] += scores[i][j];
      }
      for (A& sum : sums[i]) sum *= correction;
    }
    store_scores<Tiling>(weights, scores);
    add_weighted<Tiling>(sums, weights, v);
  }
  for (unsigned i = 0; i < kRows; ++i) {
    total[i] = warp_reduce<kSide>(total[i], Sum());
    const A inverse = A{1} / total[i];
    for (A& sum : sums[i]) sum *= inverse;
    const size_t query = q0 + Tiling::row(i);
    if (query < heads.queries && threadIdx.x % kSide == 0 && blockIdx.y == 0) {
      logsumexp[head * heads.query_tokens + query] = maximum[i] + std::log(total[i]);
    }
  }
  store_sums<Tiling, false>(heads.of_queries(out, heads.hidden(), head), heads.queries, q0,
                            blockIdx.y * size_t{Tiling::kWidth}, heads, sums);
}

template <class T, class Out, class A = Accumulate<T>>
void launch_forward(Stream& stream, const HeadTile& heads, Out* out, A* logsumexp, const T* q,
                    const T* k, const T* v) {
  dispatch_tiling<A>(heads.size, [&](auto tiling) {
    using Tiling = decltype(tiling);
    launch<forward_kernel<T, Tiling, Out>>(stream.native(),
                                           shape_of<Tiling>(heads, heads.queries, 3), out,
                                           logsumexp, q, k, v, heads, scale_of<A>(heads.size));
  });
}

}  // namespace

void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                       AttentionMask mask) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], columns = out.shape()[2];
  const AttentionHeads heads = attention_heads(logsumexp, columns, qkv.shape()[2] - columns);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* const x = qkv.as<T>();
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(heads.size, out.as<T>(), x)) {
        return forward_on_tensor_cores(stream.native(), out.as<T>(), logsumexp.as<A>(), x, batch,
                                       heads_in_qkv(tokens, heads), mask);
      }
    }
    const T* const k = x + columns;
    launch_forward<T>(stream, heads_of_qkv<A>(batch, tokens, heads, mask, x), out.as<T>(),
                      logsumexp.as<A>(), x, k, k + heads.key_columns());
  });
}

void attention_of_tile_forward(Stream& stream, TensorView out, TensorView logsumexp,
                               ConstTensorView qkv, ConstTensorView kv, ScoreTile block) {
  const size_t columns = out.shape()[2], first = block.first_query;
  const AttentionHeads heads = attention_heads(logsumexp, columns, kv.shape()[2]);
  dispatch_float(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T *const q = qkv.as<T>() + first * heads.qkv_columns(), *const k = kv.as<T>();
    const HeadTile tile =
        heads_of_block<A>(block, out.shape()[0], out.shape()[1], kv.shape()[1], heads, q, k);
    launch_forward<T>(stream, tile, out.as<A>() + first * columns, logsumexp.as<A>() + first, q, k,
                      k + heads.key_columns());
  });
}

}  // namespace ladder::cuda
