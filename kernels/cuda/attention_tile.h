// The tiles of attention on a GPU. Read kernels/cpu/plain_attention.h first.
//
// A thread block owns one tile of queries (or of keys) of one head, and walks over the tiles of
// keys (or of queries) [Dao22]. Vectors are in shared memory, scores and sums in registers. Thread
// (y, x) of 16 x 16 has rows y, y + 16, ... of the owned tile and columns x, x + 16, ... of the
// scores. Only the 16 threads with the same y, half a warp, need what it computes of a row.
//
// Heads wider than the widest tile are computed in slices; blockIdx.y says which slice of the
// result a thread block computes. The scores need all slices, so each thread block computes them
// again. Everything is computed in the accumulation dtype: bf16 and fp16 are converted when a tile
// is loaded, and results are rounded once. So they need fewer bytes than fp32, but as much
// computation. Most heads of bf16 and fp16 go to tensor cores instead: attention_mma.h.
#pragma once

#include <algorithm>

#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/pack.h"

namespace ladder::cuda {

inline constexpr unsigned kSide = 16, kThreads = kSide * kSide;

// The sizes of tiles for a head of at most kWidth_ elements a token. Backward has four tiles of
// vectors and one tile of scores in shared memory. Each has at most 16 KiB and a little padding, so
// together they fit the 99 KiB that a thread block may have on every GPU from Ampere on.
template <class A_, unsigned kWidth_>
struct Tiling {
  using A = A_;  // the type of the elements of tiles: the accumulation dtype
  static constexpr unsigned kWidth = kWidth_;
  static constexpr unsigned kTile =  // the queries or the keys of a tile
      std::min<unsigned>(sizeof(A) == 4 ? 64 : 32, (16 << 10) / (kWidth * sizeof(A)));
  static constexpr unsigned kPack = cuda::kPack<A>;
  // Rows begin four banks apart, so 8 threads read packs of 8 rows without conflict.
  static constexpr unsigned kPitch = kWidth + kPack, kScorePitch = kTile + kPack;
  static constexpr unsigned kElements = kTile * kPitch, kScoreElements = kTile * kScorePitch;
  // What a thread has: rows (and columns of scores), elements of a vector, and elements of a pack.
  static constexpr unsigned kRows = kTile / kSide, kColumns = kWidth / kSide;
  static constexpr unsigned kColumnPack = std::min(kPack, kColumns);

  using Scores = A[kRows][kRows];
  using Sums = A[kRows][kColumns];

  // Returns the column of the thread's element c. Neighbouring threads have neighbouring packs.
  static __device__ unsigned column(unsigned c) {
    return (c / kColumnPack * kSide + threadIdx.x % kSide) * kColumnPack + c % kColumnPack;
  }
  static __device__ unsigned row(unsigned i) { return threadIdx.x / kSide + kSide * i; }
  static __device__ unsigned score_column(unsigned j) { return threadIdx.x % kSide + kSide * j; }
};

// Sets tile[i][d] to element d0 + d of token t0 + i of `tokens`, and to 0 after the last token or
// element.
template <class Tiling, class T, class A = typename Tiling::A>
__device__ void load_tile(A* tile, const Vectors<const T>& from, size_t tokens, size_t t0,
                          size_t d0, const HeadTile& heads) {
  constexpr unsigned kPack = Tiling::kPack, kPacks = Tiling::kWidth / kPack;
  for (unsigned n = threadIdx.x; n < Tiling::kTile * kPacks; n += kThreads) {
    const unsigned i = n / kPacks, d = n % kPacks * kPack;
    const T* const source = from.first + (t0 + i) * from.stride + d0 + d;
    const size_t left = d0 + d < heads.size && t0 + i < tokens ? heads.size - d0 - d : 0;
    Pack<A, kPack> x{};
    if (heads.packed && left > 0) {
      x = load<kPack>(source);
    } else {
      for (unsigned k = 0; k < kPack; ++k) x.element[k] = k < left ? A{source[k]} : A{0};
    }
    store(tile + i * Tiling::kPitch + d, x);
  }
}

// Adds to scores[i][j] the product of the thread's row i of `a` with its row j of `b`.
template <class Tiling, class A = typename Tiling::A>
__device__ void add_scores(typename Tiling::Scores& scores, const A* a, const A* b) {
  constexpr unsigned kPack = Tiling::kPack, kRows = Tiling::kRows;
  for (unsigned d = 0; d < Tiling::kWidth; d += kPack) {
    Pack<A, kPack> x[kRows], y[kRows];
    for (unsigned i = 0; i < kRows; ++i) {
      x[i] = load<kPack>(a + Tiling::row(i) * Tiling::kPitch + d);
      y[i] = load<kPack>(b + Tiling::score_column(i) * Tiling::kPitch + d);
    }
    for (unsigned k = 0; k < kPack; ++k) {
      for (unsigned i = 0; i < kRows; ++i) {
        for (unsigned j = 0; j < kRows; ++j) {
          scores[i][j] = std::fma(x[i].element[k], y[j].element[k], scores[i][j]);
        }
      }
    }
  }
}

// Adds to sums[i][c] the product of the thread's row i of `weights` (kTile, kTile) with its column
// c of the tile `b`.
template <class Tiling, class A = typename Tiling::A>
__device__ void add_weighted(typename Tiling::Sums& sums, const A* weights, const A* b) {
  constexpr unsigned kPack = Tiling::kPack, kColumnPack = Tiling::kColumnPack;
  for (unsigned j = 0; j < Tiling::kTile; j += kPack) {
    Pack<A, kPack> w[Tiling::kRows];
    for (unsigned i = 0; i < Tiling::kRows; ++i) {
      w[i] = load<kPack>(weights + Tiling::row(i) * Tiling::kScorePitch + j);
    }
    for (unsigned k = 0; k < kPack; ++k) {
      for (unsigned c = 0; c < Tiling::kColumns; c += kColumnPack) {
        const auto y = load<kColumnPack>(b + (j + k) * Tiling::kPitch + Tiling::column(c));
        for (unsigned i = 0; i < Tiling::kRows; ++i) {
          for (unsigned l = 0; l < kColumnPack; ++l) {
            sums[i][c + l] = std::fma(w[i].element[k], y.element[l], sums[i][c + l]);
          }
        }
      }
    }
  }
}

// Stores the thread's scores in a tile, where the threads with the same rows read them. These are
// all in one warp.
template <class Tiling, class A = typename Tiling::A>
__device__ void store_scores(A* tile, const typename Tiling::Scores& scores) {
  __syncwarp();  // all threads have read the tile's old contents
  for (unsigned i = 0; i < Tiling::kRows; ++i) {
    for (unsigned j = 0; j < Tiling::kRows; ++j) {
      tile[Tiling::row(i) * Tiling::kScorePitch + Tiling::score_column(j)] = scores[i][j];
    }
  }
  __syncwarp();
}

}  // namespace ladder::cuda
