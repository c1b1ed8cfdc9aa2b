#include <numbers>

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_mma_tile.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

constexpr float kLog2e = std::numbers::log2e_v<float>;

// Two kernels: one computes dk and dv, the other dq. In both a thread block has a tile of kTile
// tokens, whose gradients it sums, and a loop brings the tokens on the other side of the scores,
// kStep at a time. Each warp has 16 of the block's tokens, with their sums in registers.
constexpr unsigned kTile = 64;
constexpr unsigned kThreads = kTile / 16 * kWarpSize;

// The tiles in shared memory, for heads of at most kWidth elements. The block's own tokens have two
// (keys and values, or queries and dout). So have the others, twice: one pair is copied while the
// other is read. All together have at most 99 KiB, which a thread block may have on every GPU from
// Ampere on.
template <class T, unsigned kWidth, unsigned kStep>
struct Backward {
  using Tile = MmaTile<T, kWidth>;
  using Scores = float[kStep / 8][4];
  using Sums = float[kWidth / 8][4];
  static constexpr unsigned kOwn = Tile::elements(kTile), kOther = Tile::elements(kStep);
  static constexpr unsigned kElements = 2 * kOwn + 4 * kOther;
  static constexpr size_t kBytes = kElements * sizeof(T) + 4 * kStep * sizeof(float);
  static_assert(kBytes <= 99 << 10);

  T* memory;

  __device__ Tile own(unsigned n) const { return {memory + n * kOwn}; }
  // These hold the tokens from t0 on.
  __device__ Tile other(size_t t0, unsigned n) const {
    return {memory + 2 * kOwn + (2 * buffer(t0) + n) * kOther};
  }
  __device__ float* logsumexp(size_t t0) const {
    return reinterpret_cast<float*>(memory + kElements) + 2 * buffer(t0) * kStep;
  }
  __device__ float* row_dot(size_t t0) const { return logsumexp(t0) + kStep; }

 private:
  static __device__ unsigned buffer(size_t t0) { return static_cast<unsigned>(t0 / kStep % 2); }
};

// What a query's scores need to know of it.
struct OfQuery {
  float logsumexp, row_dot;
};

// Turns four scores into their probabilities, and dp = dout v^T into the gradients of the scores
// over `scale`. of_query(i) is the OfQuery of score i. If not `all_visible`, is_visible(i) says
// whether the query sees the key: it does not see later ones.
template <class Of, class IsVisible>
__device__ void score_gradients(float (&p)[4], float (&dp)[4], float scale, bool all_visible,
                                Of of_query, IsVisible is_visible) {
  for (unsigned i = 0; i < 4; ++i) {
    p[i] = std::exp2(std::fma(p[i], kLog2e * scale, -kLog2e * of_query(i).logsumexp));
  }
  if (!all_visible) {
    for (unsigned i = 0; i < 4; ++i) p[i] = is_visible(i) ? p[i] : 0;
  }
  for (unsigned i = 0; i < 4; ++i) dp[i] = p[i] * (dp[i] - of_query(i).row_dot);
}

// Stores the warp's sums, times `scale`, as vectors of the tokens t0, ...
template <class T, unsigned kN>
__device__ void store_sums(const Vectors<T>& to, size_t t0, const Heads& heads,
                           float (&sums)[kN][4], float scale) {
  for_each_pair(sums, [&](unsigned row, unsigned d, float x, float y) {
    if (t0 + row >= heads.tokens || d >= heads.size) return;
    store(to.first + (t0 + row) * to.stride + d, Pack<float, 2>{scale * x, scale * y});
  });
}

// dk and dv of a tile of keys. Scores have a row for each key and a column for each query: then
// p^T and ds^T come out as accumulators, in the lanes where the next products want them.
template <class T, unsigned kWidth, unsigned kStep>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(T* dqkv, const float* row_dot, const T* dout, const float* logsumexp, const T* qkv,
                Heads heads, TileOrder order, float scale) {
  using Tiles = Backward<T, kWidth, kStep>;
  const Tiles tiles{dynamic_shared<T>()};
  const auto [head, number] = order.of_block();
  const auto begin_queries = [&, head = head](size_t q0) {
    begin_tile<kStep>(tiles.other(q0, 0), heads.in_qkv(qkv, head, 0), q0, heads);
    begin_tile<kStep>(tiles.other(q0, 1), heads.in_out(dout, head), q0, heads);
    if (threadIdx.x < kStep) {
      const size_t query = q0 + threadIdx.x, row = head * heads.tokens + query;
      begin_copy(tiles.logsumexp(q0) + threadIdx.x, logsumexp + row, query < heads.tokens);
      begin_copy(tiles.row_dot(q0) + threadIdx.x, row_dot + row, query < heads.tokens);
    }
    commit_copies();
  };
  const size_t k0 = number * size_t{kTile};  // the first tiles are seen most, and start first
  const unsigned row0 = warp_index() * 16, group = lane_index() / 4, pair = lane_index() % 4 * 2;
  begin_tile<kTile>(tiles.own(0), heads.in_qkv(qkv, head, 1), k0, heads);
  begin_tile<kTile>(tiles.own(1), heads.in_qkv(qkv, head, 2), k0, heads);
  begin_queries(k0);
  typename Tiles::Sums dk = {}, dv = {};
  for (size_t q0 = k0; q0 < heads.tokens; q0 += kStep) {
    wait_for_copies<0>();
    __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
    if (q0 + kStep < heads.tokens) begin_queries(q0 + kStep);
    typename Tiles::Scores p = {}, ds = {};
    add_rows_by_rows(p, tiles.own(0), row0, tiles.other(q0, 0));
    add_rows_by_rows(ds, tiles.own(1), row0, tiles.other(q0, 1));
    const int before = static_cast<int>(k0 + row0) - static_cast<int>(q0);  // keys minus queries
    for (unsigned n = 0; n < kStep / 8; ++n) {
      const auto shift = load<2>(tiles.logsumexp(q0) + 8 * n + pair);
      const auto dot = load<2>(tiles.row_dot(q0) + 8 * n + pair);
      score_gradients(
          p[n], ds[n], scale, before + 15 <= 0,
          [&](unsigned i) {
            return OfQuery{shift.element[i % 2], dot.element[i % 2]};
          },
          [&](unsigned i) {
            return before + static_cast<int>(group + i / 2 * 8) <=
                   static_cast<int>(8 * n + pair + i % 2);
          });
    }
    add_weighted(dv, p, tiles.other(q0, 1));
    add_weighted(dk, ds, tiles.other(q0, 0));
  }
  store_sums(heads.in_qkv(dqkv, head, 1), k0 + row0, heads, dk, scale);
  store_sums(heads.in_qkv(dqkv, head, 2), k0 + row0, heads, dv, 1);
}

// dq of a tile of queries. Scores have a row for each query, as in forward.
template <class T, unsigned kWidth, unsigned kStep>
__global__ void __launch_bounds__(kThreads,
                                  kWidth <= 64 ? 4 : 2)  // shared memory has room for so many
    queries_kernel(T* dqkv, const float* row_dot, const T* dout, const float* logsumexp,
                   const T* qkv, Heads heads, TileOrder order, float scale) {
  using Tiles = Backward<T, kWidth, kStep>;
  const Tiles tiles{dynamic_shared<T>()};
  const auto [head, number] = order.of_block();
  const auto begin_keys = [&, head = head](size_t k0) {
    begin_tile<kStep>(tiles.other(k0, 0), heads.in_qkv(qkv, head, 1), k0, heads);
    begin_tile<kStep>(tiles.other(k0, 1), heads.in_qkv(qkv, head, 2), k0, heads);
    commit_copies();
  };
  // The last tiles see the most keys, so they start first.
  const size_t q0 = (order.tiles - 1 - number) * size_t{kTile};
  const unsigned row0 = warp_index() * 16, group = lane_index() / 4, pair = lane_index() % 4 * 2;
  begin_tile<kTile>(tiles.own(0), heads.in_qkv(qkv, head, 0), q0, heads);
  begin_tile<kTile>(tiles.own(1), heads.in_out(dout, head), q0, heads);
  begin_keys(0);
  OfQuery of_row[2] = {};  // the lane's two rows
  for (unsigned half = 0; half < 2; ++half) {
    const size_t query = q0 + row0 + group + 8 * half;
    if (query >= heads.tokens) continue;
    const size_t row = head * heads.tokens + query;
    of_row[half] = {logsumexp[row], row_dot[row]};
  }
  const size_t end = q0 + kTile < heads.tokens ? q0 + kTile : heads.tokens;
  typename Tiles::Sums dq = {};
  for (size_t k0 = 0; k0 < end; k0 += kStep) {
    wait_for_copies<0>();
    __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
    if (k0 + kStep < end) begin_keys(k0 + kStep);
    typename Tiles::Scores p = {}, ds = {};
    add_rows_by_rows(p, tiles.own(0), row0, tiles.other(k0, 0));
    add_rows_by_rows(ds, tiles.own(1), row0, tiles.other(k0, 1));
    const int before = static_cast<int>(k0) - static_cast<int>(q0 + row0);  // keys minus queries
    for (unsigned n = 0; n < kStep / 8; ++n) {
      score_gradients(
          p[n], ds[n], scale, before + static_cast<int>(kStep) - 1 <= 0,
          [&](unsigned i) { return of_row[i / 2]; },
          [&](unsigned i) {
            return before + static_cast<int>(8 * n + pair + i % 2) <=
                   static_cast<int>(group + i / 2 * 8);
          });
    }
    add_weighted(dq, ds, tiles.other(k0, 0));
  }
  store_sums(heads.in_qkv(dqkv, head, 0), q0 + row0, heads, dq, scale);
}

}  // namespace

template <class T>
void backward_on_tensor_cores(cudaStream_t stream, T* dqkv, const float* row_dot, const T* dout,
                              const float* logsumexp, const T* qkv, size_t batch,
                              const Heads& heads) {
  const TileOrder order = TileOrder::of(batch * heads.num_heads, (heads.tokens + kTile - 1) / kTile,
                                        2 * heads.tokens * heads.size * sizeof(T));
  const float scale = scale_of<float>(heads.size);
  dispatch_mma_width(heads.size, [&](auto width) {
    constexpr unsigned kWidth = width;
    constexpr unsigned kQueries = 32, kKeys = kWidth <= 64 ? 64 : 32;  // a step
    launch<keys_kernel<T, kWidth, kQueries>>(
        stream, {order.grid(), dim3(kThreads), Backward<T, kWidth, kQueries>::kBytes}, dqkv,
        row_dot, dout, logsumexp, qkv, heads, order, scale);
    launch<queries_kernel<T, kWidth, kKeys>>(
        stream, {order.grid(), dim3(kThreads), Backward<T, kWidth, kKeys>::kBytes}, dqkv, row_dot,
        dout, logsumexp, qkv, heads, order, scale);
  });
}
template void backward_on_tensor_cores(cudaStream_t, bfloat16*, const float*, const bfloat16*,
                                       const float*, const bfloat16*, size_t, const Heads&);
template void backward_on_tensor_cores(cudaStream_t, float16*, const float*, const float16*,
                                       const float*, const float16*, size_t, const Heads&);

}  // namespace ladder::cuda
