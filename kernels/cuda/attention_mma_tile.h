// Tiles of 16-bit elements in shared memory, and the two products of attention that a warp
// computes with them on tensor cores: a b^T and weights b. README.md has pictures.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/tensor_core.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {

// The order in which thread blocks take the tiles of all heads. Thread blocks of a head read the
// same keys and values (or queries and dout), so its tiles should be computed while these are in
// the GPU's cache: heads make groups. Within a group the longest tiles of all its heads start
// first, so that no long one is left for the end.
struct TileOrder {
  // All that the thread blocks of a group read again and again; a quarter of the cache of an H100.
  static constexpr size_t kGroupBytes = size_t{12} << 20;

  unsigned heads, tiles, heads_of_group;

  // `bytes_of_head` is what thread blocks of a head read again and again.
  static TileOrder of(size_t heads, size_t tiles, size_t bytes_of_head) {
    // A call without heads or tokens has no thread blocks.
    const size_t group = std::clamp<size_t>(kGroupBytes / std::max<size_t>(bytes_of_head, 1), 1,
                                            std::max<size_t>(heads, 1));
    return {static_cast<unsigned>(heads), static_cast<unsigned>(tiles),
            static_cast<unsigned>(group)};
  }
  dim3 grid() const { return dim3(heads * tiles); }

  struct Place {
    unsigned head, tile;  // tile 0 is to start first
  };
  __device__ Place of_block() const {
    const unsigned group = blockIdx.x / (heads_of_group * tiles);
    const unsigned in_group = blockIdx.x % (heads_of_group * tiles), first = group * heads_of_group;
    const unsigned count = heads - first < heads_of_group ? heads - first : heads_of_group;
    return {first + in_group % count, in_group / count};
  }
};

// Rows of kWidth elements of T in shared memory. 8 rows begin 4 banks apart, so that ldmatrix reads
// 16 bytes of each without conflict.
template <class T, unsigned kWidth>
struct MmaTile {
  static constexpr unsigned kPitch = kWidth + 8;  // elements from one row to the next
  static_assert(kPitch * sizeof(T) % 32 == 16);   // an odd number of times 16 bytes

  static constexpr unsigned elements(unsigned rows) { return rows * kPitch; }

  T* first;

  __device__ T* at(unsigned row, unsigned column) const { return first + row * kPitch + column; }

  // Return the address that this lane passes to ldmatrix for the 16 x 16 elements from (row,
  // column) on. They are four matrices of 8 x 8, in this order:
  //   down()   0 2    across()   0 1
  //            1 3               2 3
  __device__ const T* down(unsigned row, unsigned column) const {
    const unsigned lane = lane_index();
    return at(row + lane % 16, column + lane / 16 * 8);
  }
  __device__ const T* across(unsigned row, unsigned column) const {
    const unsigned lane = lane_index();
    return at(row + lane / 16 * 8 + lane % 8, column + lane / 8 % 2 * 8);
  }
};

// Copies kRows vectors at a time into a tile, in packs of 16 bytes. All that a thread has to know
// for that does not change from tile to tile, and is computed once: which packs of the tile are its
// own, and where they are in memory. Elements after the last one of a head are 0.
// REQUIRES: the thread block has kThreads threads, and vectors are whole packs.
template <unsigned kRows, unsigned kThreads, class T, unsigned kWidth>
class TileCopies {
  using Tile = MmaTile<T, kWidth>;
  static constexpr unsigned kElements = kPack<T>, kPacks = kWidth / kElements;
  static constexpr unsigned kStep = kThreads / kPacks;  // rows that are copied side by side
  static_assert(kThreads % kPacks == 0 && kRows % kStep == 0);

 public:
  __device__ TileCopies(const Vectors<const T>& from, const Heads& heads)
      : row_(threadIdx.x / kPacks),
        column_(threadIdx.x % kPacks * kElements),
        in_head_(column_ < heads.size),
        tokens_(static_cast<unsigned>(heads.tokens)),
        stride_(from.stride),
        from_(from.first + row_ * from.stride + (in_head_ ? column_ : 0)) {}

  // Begins to copy the vectors of tokens t0, ... Rows after the last token become 0.
  __device__ void begin(const Tile& tile, unsigned t0) const {
    using Packed = Pack<T, kElements>;
    T* const to = tile.at(row_, column_);
    const T* from = from_ + t0 * stride_;
    for (unsigned row = 0; row < kRows; row += kStep, from += kStep * stride_) {
      begin_copy(reinterpret_cast<Packed*>(to + row * Tile::kPitch),
                 reinterpret_cast<const Packed*>(from), in_head_ && t0 + row_ + row < tokens_);
    }
  }

 private:
  unsigned row_, column_;
  bool in_head_;
  unsigned tokens_;
  size_t stride_;
  const T* from_;
};

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
// rounded to T: what a lane has of them is what it must have of the factor a.
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

// Calls function(width) with the narrowest tile that holds a whole head.
template <class Function>
void dispatch_mma_width(size_t head_size, Function&& function) {
  if (head_size <= 32) return function(std::integral_constant<unsigned, 32>());
  if (head_size <= 64) return function(std::integral_constant<unsigned, 64>());
  function(std::integral_constant<unsigned, 128>());
}

}  // namespace ladder::cuda
