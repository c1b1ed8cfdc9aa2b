// What a warp does with tiles on tensor cores in attention: the products a b^T and weights b, and
// what comes between them. README.md has pictures.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "kernels/attention_mask.h"
#include "kernels/cuda/attention_mma_tile.h"

namespace ladder::cuda {

inline constexpr float kLog2e = std::numbers::log2e_v<float>;

// The warps of a thread block of attention. A warp has kTilesOfWarp times 16 tokens, with their
// scores and sums in registers, which have room for two such tiles if heads have up to 64 elements.
inline constexpr unsigned kMmaWarps = 4, kMmaThreads = kMmaWarps * kWarpSize;
template <unsigned kWidth>
inline constexpr unsigned kTilesOfWarp = kWidth <= 64 ? 2 : 1;

// Returns 2^x. On a GPU this is one instruction, with a relative error of at most 2^-22, and
// results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::exp2(x);
#endif
}

// A warp's sums are 16 kM rows of 8 kN columns: float[kM][kN][4], accumulators of mma side by side
// and below each other. Calls function(row, column, x, y) for each pair of neighbouring sums that
// this lane has.
template <unsigned kM, unsigned kN, class Function>
__device__ void for_each_pair(float (&sums)[kM][kN][4], Function function) {
  const unsigned group = lane_index() / 4, pair = lane_index() % 4 * 2;
  for (unsigned m = 0; m < kM; ++m) {
    for (unsigned n = 0; n < kN; ++n) {
      for (unsigned half = 0; half < 2; ++half) {
        function(16 * m + 8 * half + group, 8 * n + pair, sums[m][n][2 * half],
                 sums[m][n][2 * half + 1]);
      }
    }
  }
}

// Sets the scores of keys that come after their query to minus infinity: a query does not see them.
// The scores have queries row0, row0 + 1, ... as rows and keys column0, column0 + 1, ... as
// columns, or, if kRowsAreKeys, the other way round.
template <bool kRowsAreKeys, unsigned kM, unsigned kN>
__device__ void hide_later_keys(float (&scores)[kM][kN][4], unsigned row0, unsigned column0) {
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  const auto is_seen = [=](unsigned row, unsigned column) {
    return kRowsAreKeys ? row0 + row <= column0 + column : column0 + column <= row0 + row;
  };
  for_each_pair(scores, [=](unsigned row, unsigned column, float& x, float& y) {
    if (!is_seen(row, column)) x = kUnseen;
    if (!is_seen(row, column + 1)) y = kUnseen;
  });
}

// Sets the scores from column num_keys on to minus infinity: there are no such keys. The scores
// have queries as rows.
template <unsigned kM, unsigned kN>
__device__ void hide_missing_keys(float (&scores)[kM][kN][4], unsigned num_keys) {
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  for_each_pair(scores, [=](unsigned, unsigned column, float& x, float& y) {
    if (column >= num_keys) x = kUnseen;
    if (column + 1 >= num_keys) y = kUnseen;
  });
}

// Calls function(std::bool_constant) with whether the mask is causal.
template <class Function>
void dispatch_mask(AttentionMask mask, Function&& function) {
  if (mask == AttentionMask::causal) return function(std::true_type());
  function(std::false_type());
}

// sums[i][j] += sum over d of a[row + i][d] b[j][d]. What is loaded of b serves kM products.
template <unsigned kM, unsigned kN, class T, unsigned kWidth>
__device__ void add_rows_by_rows(float (&sums)[kM][kN][4], const MmaTile<T, kWidth>& a,
                                 unsigned row, const MmaTile<T, kWidth>& b) {
  for (unsigned d = 0; d < kWidth; d += 16) {
    Fragment x[kM], y;
    for (unsigned m = 0; m < kM; ++m) load_matrices(x[m], a.down(row + 16 * m, d));
    for (unsigned n = 0; n < kN; n += 2) {
      load_matrices(y, b.across(8 * n, d));
      for (unsigned m = 0; m < kM; ++m) {
        mma<T>(sums[m][n], x[m], y[0], y[1]);
        mma<T>(sums[m][n + 1], x[m], y[2], y[3]);
      }
    }
  }
}

// sums[i][d] += sum over j of weights[i][j] b[j][d]. The weights are accumulators, which are
// rounded to T: a lane already has the elements that it needs of the left factor.
template <unsigned kM, unsigned kN, unsigned kWeights, class T, unsigned kWidth>
__device__ void add_weighted(float (&sums)[kM][kN][4], const float (&weights)[kM][kWeights][4],
                             const MmaTile<T, kWidth>& b) {
  for (unsigned j = 0; j < kWeights; j += 2) {
    Fragment x[kM], y;
    for (unsigned m = 0; m < kM; ++m) {
      const float(&left)[4] = weights[m][j], (&right)[4] = weights[m][j + 1];
      x[m][0] = pair_of<T>(left[0], left[1]);
      x[m][1] = pair_of<T>(left[2], left[3]);
      x[m][2] = pair_of<T>(right[0], right[1]);
      x[m][3] = pair_of<T>(right[2], right[3]);
    }
    for (unsigned n = 0; n < kN; n += 2) {
      load_transposed(y, b.down(8 * j, 8 * n));
      for (unsigned m = 0; m < kM; ++m) {
        mma<T>(sums[m][n], x[m], y[0], y[1]);
        mma<T>(sums[m][n + 1], x[m], y[2], y[3]);
      }
    }
  }
}

}  // namespace ladder::cuda
