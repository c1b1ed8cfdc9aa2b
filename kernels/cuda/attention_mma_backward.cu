#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_mma_products.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

// Two kernels: one computes dk and dv, the other dq. In both a thread block has a tile of tokens,
// whose gradients it sums, and a loop brings the tokens on the other side of the scores,
// kOtherTokens at a time.
//
// The tiles in shared memory, for heads of at most kWidth elements. The thread block's own tokens
// have two (keys and values, or queries and dout). So have the others, twice: one pair is copied
// while the other is read. All together have at most 99 KiB, which a thread block may have on every
// GPU from Ampere on.
template <class T, unsigned kWidth>
struct Backward {
  using Tile = MmaTile<T, kWidth>;
  static constexpr unsigned kM = kTilesOfWarp<kWidth>, kOwnTokens = kMmaWarps * 16 * kM,
                            kOtherTokens = 32;
  using Scores = float[kM][kOtherTokens / 8][4];
  using Sums = float[kM][kWidth / 8][4];
  using OwnCopies = TileCopies<kOwnTokens, kMmaThreads, T, kWidth>;
  using Copies = TileCopies<kOtherTokens, kMmaThreads, T, kWidth>;
  static constexpr unsigned kOwn = Tile::elements(kOwnTokens),
                            kOther = Tile::elements(kOtherTokens);
  static constexpr unsigned kElements = 2 * kOwn + 4 * kOther;
  static constexpr size_t kBytes = kElements * sizeof(T) + 4 * kOtherTokens * sizeof(float);
  static_assert(kBytes <= 99 << 10);

  T* memory;

  __device__ Tile own(unsigned n) const { return {memory + n * kOwn}; }
  // These hold the tokens that a step of the loop takes.
  __device__ Tile other(unsigned step, unsigned n) const {
    return {memory + 2 * kOwn + (2 * (step % 2) + n) * kOther};
  }
  __device__ float* logsumexp(unsigned step) const {
    return reinterpret_cast<float*>(memory + kElements) + 2 * (step % 2) * kOtherTokens;
  }
  __device__ float* row_dot(unsigned step) const { return logsumexp(step) + kOtherTokens; }
};

// What a query's scores need to know of it.
struct OfQuery {
  float logsumexp, row_dot;
};

// Turns four scores into their probabilities, and dp = dout v^T into the gradients of the scores
// over `scale`. of_query(i) is the OfQuery of score i. `scale` has the factor log2(e): e^x is
// 2^(log2(e) x).
template <class Of>
__device__ void score_gradients(float (&p)[4], float (&dp)[4], float scale, Of of_query) {
  for (unsigned i = 0; i < 4; ++i) {
    p[i] = fast_exp2(std::fma(p[i], scale, -kLog2e * of_query(i).logsumexp));
    dp[i] = p[i] * (dp[i] - of_query(i).row_dot);
  }
}

// Stores the warp's sums, times `scale`, as vectors of the tokens t0, ...
template <class T, unsigned kM, unsigned kN>
__device__ void store_sums(const Vectors<T>& to, size_t t0, const Heads& heads,
                           float (&sums)[kM][kN][4], float scale) {
  for_each_pair(sums, [&](unsigned row, unsigned d, float x, float y) {
    if (t0 + row >= heads.tokens || d >= heads.size) return;
    store(to.first + (t0 + row) * to.stride + d, Pack<float, 2>{scale * x, scale * y});
  });
}

// dk and dv of a tile of keys, from all query heads of its group, one after the other. Scores have
// a row for each key and a column for each query: then p^T and ds^T come out as accumulators, in
// the lanes where the next products want them.
template <class Tiles, class T, bool kCausal>
__global__ void __launch_bounds__(kMmaThreads, 2)
    keys_kernel(T* dqkv, const float* row_dot, const T* dout, const float* logsumexp, const T* qkv,
                Heads heads, TileOrder order, float scale) {
  constexpr unsigned kM = Tiles::kM, kOtherTokens = Tiles::kOtherTokens;
  const Tiles tiles{dynamic_shared<T>()};
  const auto [key_head, number] = order.of_block();
  const unsigned tokens = static_cast<unsigned>(heads.tokens), head = key_head * heads.group;
  typename Tiles::Copies queries(heads.in_qkv(qkv, head, 0), heads),
      gradients(heads.in_out(dout, head), heads);
  size_t statistics = head * heads.tokens;  // where those of the query head begin
  const auto begin_queries = [&](unsigned q0, unsigned step) {
    queries.begin(tiles.other(step, 0), q0);
    gradients.begin(tiles.other(step, 1), q0);
    if (threadIdx.x < kOtherTokens) {
      const size_t query = q0 + threadIdx.x, row = statistics + query;
      begin_copy(tiles.logsumexp(step) + threadIdx.x, logsumexp + row, query < tokens);
      begin_copy(tiles.row_dot(step) + threadIdx.x, row_dot + row, query < tokens);
    }
    commit_copies();
  };
  // With a causal mask the first tiles are seen most, and start first.
  const unsigned k0 = number * Tiles::kOwnTokens, first_query = kCausal ? k0 : 0;
  const unsigned row0 = warp_index() * 16 * kM, pair = lane_index() % 4 * 2;
  typename Tiles::OwnCopies(heads.in_qkv(qkv, head, 1), heads).begin(tiles.own(0), k0);
  typename Tiles::OwnCopies(heads.in_qkv(qkv, head, 2), heads).begin(tiles.own(1), k0);
  begin_queries(first_query, 0);
  typename Tiles::Sums dk = {}, dv = {};
  unsigned step = 0;
  for (unsigned heads_left = heads.group; heads_left > 0; --heads_left) {
    for (unsigned q0 = first_query; q0 < tokens; q0 += kOtherTokens, ++step) {
      wait_for_copies<0>();
      __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
      const bool is_last = q0 + kOtherTokens >= tokens;
      if (is_last) {
        queries.next_head(heads.size);
        gradients.next_head(heads.size);
        statistics += heads.tokens;
      }
      if (!is_last || heads_left > 1)
        begin_queries(is_last ? first_query : q0 + kOtherTokens, step + 1);
      // These queries see none of the warp's keys.
      if (kCausal && q0 + kOtherTokens <= k0 + row0) continue;
      typename Tiles::Scores p = {}, ds = {};
      add_rows_by_rows(p, tiles.own(0), row0, tiles.other(step, 0));
      add_rows_by_rows(ds, tiles.own(1), row0, tiles.other(step, 1));
      // Later queries see all of the warp's keys.
      if (kCausal && q0 < k0 + row0 + 16 * kM - 1) hide_later_keys<true>(p, k0 + row0, q0);
      for (unsigned n = 0; n < kOtherTokens / 8; ++n) {
        const auto shift = load<2>(tiles.logsumexp(step) + 8 * n + pair);
        const auto dot = load<2>(tiles.row_dot(step) + 8 * n + pair);
        for (unsigned m = 0; m < kM; ++m) {
          score_gradients(p[m][n], ds[m][n], scale * kLog2e, [&](unsigned i) {
            return OfQuery{shift.element[i % 2], dot.element[i % 2]};
          });
        }
      }
      add_weighted(dv, p, tiles.other(step, 1));
      add_weighted(dk, ds, tiles.other(step, 0));
    }
  }
  store_sums(heads.in_qkv(dqkv, head, 1), k0 + row0, heads, dk, scale);
  store_sums(heads.in_qkv(dqkv, head, 2), k0 + row0, heads, dv, 1);
}

// dq of a tile of queries. Scores have a row for each query, as in forward.
template <class Tiles, class T, bool kCausal>
__global__ void __launch_bounds__(kMmaThreads, Tiles::kM == 2 ? 3 : 2)
    queries_kernel(T* dqkv, const float* row_dot, const T* dout, const float* logsumexp,
                   const T* qkv, Heads heads, TileOrder order, float scale) {
  constexpr unsigned kM = Tiles::kM, kOtherTokens = Tiles::kOtherTokens;
  const Tiles tiles{dynamic_shared<T>()};
  const auto [head, number] = order.of_block();
  const unsigned tokens = static_cast<unsigned>(heads.tokens);
  const typename Tiles::Copies keys(heads.in_qkv(qkv, head, 1), heads),
      values(heads.in_qkv(qkv, head, 2), heads);
  const auto begin_keys = [&](unsigned k0) {
    keys.begin(tiles.other(k0 / kOtherTokens, 0), k0);
    values.begin(tiles.other(k0 / kOtherTokens, 1), k0);
    commit_copies();
  };
  // With a causal mask the last tiles see the most keys, so they start first.
  const unsigned q0 = (order.tiles - 1 - number) * Tiles::kOwnTokens;
  const unsigned row0 = warp_index() * 16 * kM, group = lane_index() / 4;
  typename Tiles::OwnCopies(heads.in_qkv(qkv, head, 0), heads).begin(tiles.own(0), q0);
  typename Tiles::OwnCopies(heads.in_out(dout, head), heads).begin(tiles.own(1), q0);
  begin_keys(0);
  OfQuery of_row[kM][2] = {};  // the lane's rows
  for (unsigned m = 0; m < kM; ++m) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned query = q0 + row0 + 16 * m + 8 * half + group;
      if (query >= tokens) continue;
      const size_t row = head * heads.tokens + query;
      of_row[m][half] = {logsumexp[row], row_dot[row]};
    }
  }
  const unsigned end = kCausal && q0 + Tiles::kOwnTokens < tokens ? q0 + Tiles::kOwnTokens : tokens;
  typename Tiles::Sums dq = {};
  for (unsigned k0 = 0; k0 < end; k0 += kOtherTokens) {
    wait_for_copies<0>();
    __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
    if (k0 + kOtherTokens < end) begin_keys(k0 + kOtherTokens);
    if (kCausal && k0 >= q0 + row0 + 16 * kM) continue;  // the warp's queries see no such key
    typename Tiles::Scores p = {}, ds = {};
    const unsigned step = k0 / kOtherTokens;
    add_rows_by_rows(p, tiles.own(0), row0, tiles.other(step, 0));
    add_rows_by_rows(ds, tiles.own(1), row0, tiles.other(step, 1));
    // The warp's queries see all earlier keys.
    if constexpr (kCausal) {
      if (k0 + kOtherTokens > q0 + row0 + 1) hide_later_keys<false>(p, q0 + row0, k0);
    } else {
      if (k0 + kOtherTokens > tokens) hide_missing_keys(p, tokens - k0);
    }
    for (unsigned m = 0; m < kM; ++m) {
      for (unsigned n = 0; n < kOtherTokens / 8; ++n) {
        score_gradients(p[m][n], ds[m][n], scale * kLog2e,
                        [&](unsigned i) { return of_row[m][i / 2]; });
      }
    }
    add_weighted(dq, ds, tiles.other(step, 0));
  }
  store_sums(heads.in_qkv(dqkv, head, 0), q0 + row0, heads, dq, scale);
}

}  // namespace

template <class T>
void backward_on_tensor_cores(cudaStream_t stream, T* dqkv, const float* row_dot, const T* dout,
                              const float* logsumexp, const T* qkv, size_t batch,
                              const Heads& heads, AttentionMask mask) {
  const float scale = scale_of<float>(heads.size);
  dispatch_mma_width(heads.size, [&](auto width) {
    using Tiles = Backward<T, width>;
    const TileOrder keys = TileOrder::of_key_heads<T>(batch, heads, Tiles::kOwnTokens);
    const TileOrder queries = TileOrder::of_query_heads<T>(batch, heads, Tiles::kOwnTokens);
    dispatch_mask(mask, [&](auto causal) {
      LaunchShape shape = {keys.grid(), dim3(kMmaThreads), Tiles::kBytes};
      launch<keys_kernel<Tiles, T, causal>>(stream, shape, dqkv, row_dot, dout, logsumexp, qkv,
                                            heads, keys, scale);
      shape.grid = queries.grid();
      launch<queries_kernel<Tiles, T, causal>>(stream, shape, dqkv, row_dot, dout, logsumexp, qkv,
                                               heads, queries, scale);
    });
  });
}
template void backward_on_tensor_cores(cudaStream_t, bfloat16*, const float*, const bfloat16*,
                                       const float*, const bfloat16*, size_t, const Heads&,
                                       AttentionMask);
template void backward_on_tensor_cores(cudaStream_t, float16*, const float*, const float16*,
                                       const float*, const float16*, size_t, const Heads&,
                                       AttentionMask);

}  // namespace ladder::cuda
