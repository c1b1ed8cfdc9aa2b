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
  const auto queries = heads.of_queries(q_of_all, heads.q_stride);
  const auto keys = heads.of_keys(k_of_all), values = heads.of_keys(v_of_all);
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
      logsumexp[heads.head() * heads.query_tokens + query] = maximum[i] + std::log(total[i]);
    }
  }
  store_sums<Tiling, false>(heads.of_queries(out, heads.hidden()), heads.queries, q0,
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

void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* const x = qkv.as<T>();
    if constexpr (sizeof(T) == 2) {
      if (suits_tensor_cores(size, out.as<T>(), x)) {
        return forward_on_tensor_cores(stream.native(), out.as<T>(), logsumexp.as<A>(), x, batch,
                                       {tokens, num_heads, size});
      }
    }
    const HeadTile heads = heads_of_qkv<A>(batch, tokens, num_heads, size, x);
    launch_forward<T>(stream, heads, out.as<T>(), logsumexp.as<A>(), x, x + hidden, x + 2 * hidden);
  });
}

void attention_of_tile_forward(Stream& stream, TensorView out, TensorView logsumexp,
                               ConstTensorView qkv, ConstTensorView kv, ScoreTile block) {
  const size_t hidden = out.shape()[2], first = block.first_query;
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T *const q = qkv.as<T>() + first * 3 * hidden, *const k = kv.as<T>();
    const HeadTile heads = heads_of_block<A>(block, out.shape()[0], out.shape()[1], kv.shape()[1],
                                             num_heads, size, q, k);
    launch_forward<T>(stream, heads, out.as<A>() + first * hidden, logsumexp.as<A>() + first, q, k,
                      k + hidden);
  });
}

}  // namespace ladder::cuda
