#include "kernels/cuda/attention_mma.h"

#include <limits>

#include "kernels/cuda/attention_mma_products.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kKeys = 64;  // of a tile; a thread block has a tile of queries

// What a lane knows of the two rows that it has of 16. The totals are over the lane's columns only.
struct RowStatistics {
  float maximum[2] = {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::lowest()};
  float total[2] = {};
};

// Online softmax: turns the scores of 16 queries and a tile of keys into exponentials, relative to
// the largest score so far, and corrects what was summed up relative to an earlier one. e^x is
// 2^(log2(e) x), and `scale` has the factor log2(e).
template <unsigned kN>
__device__ void exponentiate(float (&scores)[kKeys / 8][4], float (&sums)[kN][4],
                             RowStatistics& rows, float scale) {
  for (unsigned half = 0; half < 2; ++half) {
    float largest = rows.maximum[half];
    for (const auto& score : scores) {
      largest = std::fmax(largest, std::fmax(score[2 * half], score[2 * half + 1]));
    }
    largest = warp_reduce<4>(largest, Maximum());
    const float correction = fast_exp2(scale * (rows.maximum[half] - largest));
    rows.maximum[half] = largest;
    rows.total[half] *= correction;
    for (auto& sum : sums) {
      sum[2 * half] *= correction;
      sum[2 * half + 1] *= correction;
    }
    for (auto& score : scores) {
      for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
        score[i] = fast_exp2(std::fma(score[i], scale, -scale * largest));
        rows.total[half] += score[i];
      }
    }
  }
}

// The tiles in shared memory: the thread block's queries, and twice keys and values.
template <class T, unsigned kWidth>
struct Forward {
  using Tile = MmaTile<T, kWidth>;
  static constexpr unsigned kM = kTilesOfWarp<kWidth>, kQueries = kMmaWarps * 16 * kM;
  static constexpr unsigned kOwn = Tile::elements(kQueries), kOther = Tile::elements(kKeys);
  static constexpr size_t kBytes = (kOwn + 4 * kOther) * sizeof(T);
};

template <class T, unsigned kWidth, bool kCausal>
__global__ void __launch_bounds__(kMmaThreads, 2)
    forward_kernel(T* out, float* logsumexp, const T* qkv, Heads heads, TileOrder order,
                   float scale) {
  using F = Forward<T, kWidth>;
  constexpr unsigned kM = F::kM;
  const typename F::Tile q{dynamic_shared<T>()};
  // There are two tiles of keys and two of values: one is copied while the other is read.
  const auto tile = [q](unsigned k0, unsigned n) {
    return typename F::Tile{q.first + F::kOwn + (2 * (k0 / kKeys % 2) + n) * F::kOther};
  };
  const auto [head, number] = order.of_block();
  const TileCopies<kKeys, kMmaThreads, T, kWidth> keys(heads.in_qkv(qkv, head, 1), heads),
      values(heads.in_qkv(qkv, head, 2), heads);
  const auto begin_keys = [&](unsigned k0) {
    keys.begin(tile(k0, 0), k0);
    values.begin(tile(k0, 1), k0);
    commit_copies();
  };
  // With a causal mask the last tiles see the most keys, so they start first.
  const unsigned q0 = (order.tiles - 1 - number) * F::kQueries;
  const unsigned row0 = warp_index() * 16 * kM;
  TileCopies<F::kQueries, kMmaThreads, T, kWidth>(heads.in_qkv(qkv, head, 0), heads).begin(q, q0);
  begin_keys(0);
  float sums[kM][kWidth / 8][4] = {};
  RowStatistics rows[kM];
  const unsigned tokens = static_cast<unsigned>(heads.tokens);
  const unsigned end = kCausal && q0 + F::kQueries < tokens ? q0 + F::kQueries : tokens;
  for (unsigned k0 = 0; k0 < end; k0 += kKeys) {
    wait_for_copies<0>();
    __syncthreads();  // all threads' copies have ended, and the other two tiles have been read
    if (k0 + kKeys < end) begin_keys(k0 + kKeys);
    // The warp's queries see none of these keys.
    if (kCausal && k0 >= q0 + row0 + 16 * kM) continue;
    float scores[kM][kKeys / 8][4] = {};
    add_rows_by_rows(scores, q, row0, tile(k0, 0));
    // Elsewhere the queries see all keys.
    if constexpr (kCausal) {
      if (k0 + kKeys > q0 + row0 + 1) hide_later_keys<false>(scores, q0 + row0, k0);
    } else {
      if (k0 + kKeys > tokens) hide_missing_keys(scores, tokens - k0);
    }
    for (unsigned m = 0; m < kM; ++m) {
      exponentiate(scores[m], sums[m], rows[m], scale * kLog2e);
    }
    add_weighted(sums, scores, tile(k0, 1));
  }
  for (unsigned m = 0; m < kM; ++m) {
    for (unsigned half = 0; half < 2; ++half) {
      const float total = warp_reduce<4>(rows[m].total[half], Sum()), inverse = 1 / total;
      for (auto& sum : sums[m]) {
        sum[2 * half] *= inverse;
        sum[2 * half + 1] *= inverse;
      }
      const unsigned query = q0 + row0 + 16 * m + 8 * half + lane_index() / 4;
      if (lane_index() % 4 == 0 && query < tokens) {
        logsumexp[head * heads.tokens + query] = scale * rows[m].maximum[half] + std::log(total);
      }
    }
  }
  const auto to = heads.in_out(out, head);
  for_each_pair(sums, [=, head = head](unsigned row, unsigned d, float x, float y) {
    const size_t t = q0 + row0 + row;
    if (t >= heads.tokens || d >= heads.size) return;
    store(to.first + t * to.stride + d, Pack<float, 2>{x, y});
  });
}

}  // namespace

template <class T>
void forward_on_tensor_cores(cudaStream_t stream, T* out, float* logsumexp, const T* qkv,
                             size_t batch, const Heads& heads, AttentionMask mask) {
  dispatch_mma_width(heads.size, [&](auto width) {
    constexpr unsigned kWidth = width;
    using F = Forward<T, kWidth>;
    const TileOrder order = TileOrder::of_query_heads<T>(batch, heads, F::kQueries);
    const LaunchShape shape = {order.grid(), dim3(kMmaThreads), F::kBytes};
    dispatch_mask(mask, [&](auto causal) {
      launch<forward_kernel<T, kWidth, causal>>(stream, shape, out, logsumexp, qkv, heads, order,
                                                scale_of<float>(heads.size));
    });
  });
}
template void forward_on_tensor_cores(cudaStream_t, bfloat16*, float*, const bfloat16*, size_t,
                                      const Heads&, AttentionMask);
template void forward_on_tensor_cores(cudaStream_t, float16*, float*, const float16*, size_t,
                                      const Heads&, AttentionMask);

}  // namespace ladder::cuda
