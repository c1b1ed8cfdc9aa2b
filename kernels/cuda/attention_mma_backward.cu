#include <numbers>

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_mma_tile.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

constexpr float kLog2e = std::numbers::log2e_v<float>;

// One thread block computes all gradients of a head of a sequence: it takes the tiles of keys one
// after the other, and for each of them the tiles of queries that see it. Each warp has 16 keys of
// the tile, with their sums of dk and dv in registers. A tile of gradients of scores is the only
// one that warps hand to each other. Few heads and sequences leave multiprocessors idle: 8
// sequences of GPT-2 124M are 8 x 12 = 96 thread blocks, and an H100 has 132 multiprocessors.
constexpr unsigned kKeys = 128;
constexpr unsigned kWarps = kKeys / 16, kThreads = kWarps * kWarpSize;

// The sizes of backward's other tiles, for heads of at most kWidth elements, and where they are in
// shared memory. All together have at most 99 KiB, which a thread block may have on every GPU from
// Ampere on.
template <class T, unsigned kWidth>
struct Backward {
  static constexpr unsigned kQueries = kWidth <= 64 ? 64 : 32;
  // If there is room for two tiles of queries and of dout, one is copied while the other is read.
  static constexpr unsigned kBuffers = kWidth <= 64 ? 2 : 1;
  // Of dq, each warp computes 16 rows and kColumns columns.
  static constexpr unsigned kRowGroups = kQueries / 16;
  static constexpr unsigned kColumns = kWidth / (kWarps / kRowGroups);

  using Tile = MmaTile<T, kWidth>;
  using ScoreTile = MmaTile<T, kQueries>;
  static constexpr unsigned kOfKeys = Tile::elements(kKeys), kOfQueries = Tile::elements(kQueries);

  static constexpr unsigned kStatistics =  // where the floats begin, counted in elements of T
      2 * kOfKeys + 2 * kBuffers * kOfQueries + ScoreTile::elements(kKeys);
  static constexpr size_t kBytes =
      kStatistics * sizeof(T) + 2 * kBuffers * kQueries * sizeof(float);
  static_assert(kBytes <= 99 << 10);

  T* memory;

  __device__ Tile k() const { return {memory}; }
  __device__ Tile v() const { return {memory + kOfKeys}; }
  __device__ ScoreTile ds() const { return {memory + 2 * kOfKeys + 2 * kBuffers * kOfQueries}; }
  // These hold the tile of queries that begins with token q0.
  __device__ Tile q(size_t q0) const {
    return {memory + 2 * kOfKeys + 2 * buffer(q0) * kOfQueries};
  }
  __device__ Tile dout(size_t q0) const { return {q(q0).first + kOfQueries}; }
  __device__ float* logsumexp(size_t q0) const {
    return reinterpret_cast<float*>(memory + kStatistics) + 2 * buffer(q0) * kQueries;
  }
  __device__ float* row_dot(size_t q0) const { return logsumexp(q0) + kQueries; }

 private:
  static __device__ unsigned buffer(size_t q0) {
    return static_cast<unsigned>(q0 / kQueries % kBuffers);
  }
};

// The sums of dq are not complete before the last key has been seen, and fp32 needs twice the bytes
// of a T. But until the keys of a token come, nobody needs the bytes of its dk and its dv. So they
// hold the sums: the first half of the head's elements are in the bytes of dk, the others in those
// of dv. Returns where element d of token t is.
template <class T>
__device__ float* sum_of_dq(T* dqkv, const Heads& heads, size_t t, size_t d) {
  const bool first_half = d < heads.size / 2;
  const auto at = heads.in_qkv(dqkv, first_half ? 1 : 2);
  return reinterpret_cast<float*>(at.first + t * at.stride) + (first_half ? d : d - heads.size / 2);
}

// Turns a warp's scores into probabilities, and dp = dout v^T into the gradients of the scores over
// `scale`. Rows are keys from key0 on, columns are queries from q0 on.
template <class Tiles, unsigned kN>
__device__ void score_gradients(float (&p)[kN][4], float (&dp)[kN][4], const Tiles& tiles,
                                size_t key0, size_t q0, float scale) {
  const unsigned pair = lane_index() % 4 * 2;
  const bool all_visible = key0 + 15 <= q0;
  for (unsigned n = 0; n < kN; ++n) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane_index() / 4 + i / 2 * 8, column = 8 * n + pair + i % 2;
      const bool visible = all_visible || key0 + row <= q0 + column;
      const float shift = kLog2e * tiles.logsumexp(q0)[column], dot = tiles.row_dot(q0)[column];
      p[n][i] = visible ? std::exp2(std::fma(p[n][i], kLog2e * scale, -shift)) : 0;
      dp[n][i] = visible ? p[n][i] * (dp[n][i] - dot) : 0;
    }
  }
}

// Adds to the sums of dq what the tile of keys that begins with token k0 contributes to the queries
// from q0 on. If no later keys follow, stores dq. Each sum has one thread, which reads what it
// wrote before.
template <class T, class Tiles>
__device__ void add_to_dq(T* dqkv, const Tiles& tiles, size_t k0, size_t q0, const Heads& heads,
                          float scale) {
  const unsigned row0 = warp_index() % Tiles::kRowGroups * 16;
  const unsigned d0 = warp_index() / Tiles::kRowGroups * Tiles::kColumns;
  float sums[Tiles::kColumns / 8][4] = {};
  add_columns_by_columns<kKeys>(sums, tiles.ds(), row0, tiles.k(), d0);
  const bool is_first = k0 == 0, is_last = q0 < k0 + kKeys;
  const auto dq = heads.in_qkv(dqkv, 0);
  for_each_pair(sums, [&](unsigned row, unsigned column, float x, float y) {
    const size_t t = q0 + row0 + row, d = d0 + column;
    if (t >= heads.tokens || d >= heads.size) return;
    float* const so_far = sum_of_dq(dqkv, heads, t, d);
    if (!is_first) {
      const auto before = load<2>(so_far);
      x += before.element[0];
      y += before.element[1];
    }
    if (is_last) {
      store(dq.first + t * dq.stride + d, Pack<float, 2>{scale * x, scale * y});
    } else {
      store(so_far, Pack<float, 2>{x, y});
    }
  });
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

template <class T, unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(T* dqkv, const float* row_dot, const T* dout, const float* logsumexp,
                    const T* qkv, Heads heads, float scale) {
  using Tiles = Backward<T, kWidth>;
  constexpr unsigned kQueries = Tiles::kQueries;
  const Tiles tiles{dynamic_shared<T>()};
  const auto begin_queries = [&](size_t q0) {
    begin_tile<kQueries>(tiles.q(q0), heads.in_qkv(qkv, 0), q0, heads);
    begin_tile<kQueries>(tiles.dout(q0), heads.in_out(dout), q0, heads);
    if (threadIdx.x < kQueries) {
      const size_t query = q0 + threadIdx.x, row = blockIdx.x * heads.tokens + query;
      begin_copy(tiles.logsumexp(q0) + threadIdx.x, logsumexp + row, query < heads.tokens);
      begin_copy(tiles.row_dot(q0) + threadIdx.x, row_dot + row, query < heads.tokens);
    }
    commit_copies();
  };
  const unsigned row0 = warp_index() * 16;
  for (size_t k0 = 0; k0 < heads.tokens; k0 += kKeys) {
    begin_tile<kKeys>(tiles.k(), heads.in_qkv(qkv, 1), k0, heads);
    begin_tile<kKeys>(tiles.v(), heads.in_qkv(qkv, 2), k0, heads);
    begin_queries(k0);
    float dk[kWidth / 8][4] = {}, dv[kWidth / 8][4] = {};
    for (size_t q0 = k0; q0 < heads.tokens; q0 += kQueries) {
      const bool another = q0 + kQueries < heads.tokens;
      wait_for_copies<0>();
      __syncthreads();  // all threads' copies have ended; the other tile and ds have been read
      if (Tiles::kBuffers == 2 && another) begin_queries(q0 + kQueries);
      float p[kQueries / 8][4] = {}, ds[kQueries / 8][4] = {};
      add_rows_by_rows(p, tiles.k(), row0, tiles.q(q0));
      add_rows_by_rows(ds, tiles.v(), row0, tiles.dout(q0));
      score_gradients(p, ds, tiles, k0 + row0, q0, scale);
      add_weighted(dv, p, tiles.dout(q0));
      add_weighted(dk, ds, tiles.q(q0));
      for_each_pair(ds, [&](unsigned row, unsigned column, float x, float y) {
        store(tiles.ds().at(row0 + row, column), Pack<float, 2>{x, y});
      });
      __syncthreads();  // ds is complete, and the queries have been read
      if (Tiles::kBuffers == 1 && another) begin_queries(q0 + kQueries);
      add_to_dq(dqkv, tiles, k0, q0, heads, scale);
    }
    __syncthreads();  // the tiles have been read, and so have the sums of dq of these tokens
    store_sums(heads.in_qkv(dqkv, 1), k0 + row0, heads, dk, scale);
    store_sums(heads.in_qkv(dqkv, 2), k0 + row0, heads, dv, 1);
  }
}

}  // namespace

template <class T>
void backward_on_tensor_cores(cudaStream_t stream, T* dqkv, const float* row_dot, const T* dout,
                              const float* logsumexp, const T* qkv, size_t batch,
                              const Heads& heads) {
  dispatch_mma_width(heads.size, [&](auto width) {
    constexpr unsigned kWidth = width;
    const LaunchShape shape = {dim3(static_cast<unsigned>(batch * heads.num_heads)), dim3(kThreads),
                               Backward<T, kWidth>::kBytes};
    launch<backward_kernel<T, kWidth>>(stream, shape, dqkv, row_dot, dout, logsumexp, qkv, heads,
                                       scale_of<float>(heads));
  });
}
template void backward_on_tensor_cores(cudaStream_t, bfloat16*, const float*, const bfloat16*,
                                       const float*, const bfloat16*, size_t, const Heads&);
template void backward_on_tensor_cores(cudaStream_t, float16*, const float*, const float16*,
                                       const float*, const float16*, size_t, const Heads&);

}  // namespace ladder::cuda
