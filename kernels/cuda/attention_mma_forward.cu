#include "kernels/cuda/attention_mma.h"

#include <limits>
#include <numbers>

#include "kernels/cuda/attention_mma_tile.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

constexpr float kLog2e = std::numbers::log2e_v<float>;

// A thread block has a tile of queries. Each of its warps has 16 of them, and their scores and sums
// in registers.
constexpr unsigned kTile = 64;  // the queries or the keys of a tile
constexpr unsigned kThreads = kTile / 16 * kWarpSize;

using Scores = float[kTile / 8][4];

// What a lane knows of its two rows. The totals are over the lane's columns only.
struct RowStatistics {
  float maximum[2] = {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::lowest()};
  float total[2] = {};
};

// Online softmax: turns the scores of a tile of keys into exponentials, relative to the largest
// score so far, and corrects what was summed up relative to an earlier one. e^x is 2^(log2(e) x),
// and `scale` has the factor log2(e).
template <unsigned kN>
__device__ void exponentiate(Scores& scores, float (&sums)[kN][4], RowStatistics& rows,
                             float scale) {
  for (unsigned half = 0; half < 2; ++half) {
    float largest = rows.maximum[half];
    for (const auto& score : scores) {
      largest = std::fmax(largest, std::fmax(score[2 * half], score[2 * half + 1]));
    }
    largest = warp_reduce<4>(largest, Maximum());
    const float correction = std::exp2(scale * (rows.maximum[half] - largest));
    rows.maximum[half] = largest;
    rows.total[half] *= correction;
    for (auto& sum : sums) {
      sum[2 * half] *= correction;
      sum[2 * half + 1] *= correction;
    }
    for (auto& score : scores) {
      for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
        score[i] = std::exp2(std::fma(score[i], scale, -scale * largest));
        rows.total[half] += score[i];
      }
    }
  }
}

template <class T, unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(T* out, float* logsumexp, const T* qkv, Heads heads, TileOrder order,
                   float scale) {
  using Tile = MmaTile<T, kWidth>;
  constexpr unsigned kElements = Tile::elements(kTile);
  const Tile q{dynamic_shared<T>()};
  // There are two tiles of keys and two of values: one is copied while the other is read.
  const auto tile = [q](size_t k0, unsigned n) {
    return Tile{q.first + (1 + 2 * (k0 / kTile % 2) + n) * kElements};
  };
  const auto [head, number] = order.of_block();
  const auto begin_keys = [&, head = head](size_t k0) {
    begin_tile<kTile>(tile(k0, 0), heads.in_qkv(qkv, head, 1), k0, heads);
    begin_tile<kTile>(tile(k0, 1), heads.in_qkv(qkv, head, 2), k0, heads);
    commit_copies();
  };
  // The last tiles see the most keys, so they start first.
  const size_t q0 = (order.tiles - 1 - number) * size_t{kTile};
  const unsigned row0 = warp_index() * 16;
  begin_tile<kTile>(q, heads.in_qkv(qkv, head, 0), q0, heads);
  begin_keys(0);
  float sums[kWidth / 8][4] = {};
  RowStatistics rows;
  for (size_t k0 = 0; k0 <= q0; k0 += kTile) {
    wait_for_copies<0>();
    __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
    if (k0 < q0) begin_keys(k0 + kTile);
    Scores scores = {};
    add_rows_by_rows(scores, q, row0, tile(k0, 0));
    if (k0 == q0) {  // elsewhere the queries see all keys
      for_each_pair(scores, [row0](unsigned row, unsigned column, float& x, float& y) {
        constexpr float kUnseen = -std::numeric_limits<float>::infinity();
        if (column > row0 + row) x = kUnseen;
        if (column + 1 > row0 + row) y = kUnseen;
      });
    }
    exponentiate(scores, sums, rows, scale * kLog2e);
    add_weighted(sums, scores, tile(k0, 1));
  }
  float inverse[2];
  for (unsigned half = 0; half < 2; ++half) {
    rows.total[half] = warp_reduce<4>(rows.total[half], Sum());
    inverse[half] = 1 / rows.total[half];
  }
  const auto to = heads.in_out(out, head);
  for_each_pair(sums, [&, head = head](unsigned row, unsigned d, float x, float y) {
    const size_t t = q0 + row0 + row;
    const unsigned half = row / 8;
    if (t >= heads.tokens || d >= heads.size) return;
    store(to.first + t * to.stride + d, Pack<float, 2>{x * inverse[half], y * inverse[half]});
    if (d == 0) {
      logsumexp[head * heads.tokens + t] = scale * rows.maximum[half] + std::log(rows.total[half]);
    }
  });
}

}  // namespace

template <class T>
void forward_on_tensor_cores(cudaStream_t stream, T* out, float* logsumexp, const T* qkv,
                             size_t batch, const Heads& heads) {
  dispatch_mma_width(heads.size, [&](auto width) {
    constexpr unsigned kWidth = width;
    const TileOrder order =
        TileOrder::of(batch * heads.num_heads, (heads.tokens + kTile - 1) / kTile,
                      2 * heads.tokens * heads.size * sizeof(T));
    const LaunchShape shape = {order.grid(), dim3(kThreads),
                               5 * MmaTile<T, kWidth>::elements(kTile) * sizeof(T)};
    launch<forward_kernel<T, kWidth>>(stream, shape, out, logsumexp, qkv, heads, order,
                                      scale_of<float>(heads.size));
  });
}
template void forward_on_tensor_cores(cudaStream_t, bfloat16*, float*, const bfloat16*, size_t,
                                      const Heads&);
template void forward_on_tensor_cores(cudaStream_t, float16*, float*, const float16*, size_t,
                                      const Heads&);

}  // namespace ladder::cuda
