// Tiles of 16-bit elements in shared memory: in which order thread blocks take them, where their
// elements are, how they are copied.
#pragma once

#include <algorithm>

#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/tensor_core.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {

// The order in which thread blocks take the tiles of all heads. Thread blocks of a head read the
// same keys and values (or queries and dout), so its tiles should be computed while these are in
// the GPU's cache. So heads form groups. Within a group the longest tiles of all its heads start
// first, so that no long one is left for the end.
struct TileOrder {
  // All that the thread blocks of a group read again and again; a quarter of the cache of an H100.
  static constexpr size_t kGroupBytes = size_t{12} << 20;

  unsigned heads, tiles, heads_of_group;

  // Return the order of all query heads' tiles, or of all key heads', of `tokens_of_tile` tokens.
  // What the thread blocks of a query head read again and again are vectors of T: two for each
  // token, key and value, which heads.group query heads share. Those of a key head read query and
  // dout of so many query heads.
  template <class T>
  static TileOrder of_query_heads(size_t batch, const Heads& heads, size_t tokens_of_tile) {
    return of(batch * heads.num_heads, (heads.tokens + tokens_of_tile - 1) / tokens_of_tile,
              2 * heads.tokens * heads.size * sizeof(T) / heads.group);
  }
  template <class T>
  static TileOrder of_key_heads(size_t batch, const Heads& heads, size_t tokens_of_tile) {
    return of(batch * heads.num_kv_heads, (heads.tokens + tokens_of_tile - 1) / tokens_of_tile,
              2 * heads.tokens * heads.size * sizeof(T) * heads.group);
  }
  // `bytes_of_head` is what thread blocks of a head read again and again.
  static TileOrder of(size_t heads, size_t tiles, size_t bytes_of_head) {
    // A call without heads or tokens has no thread blocks.
    const size_t group = std::clamp<size_t>(kGroupBytes / std::max<size_t>(bytes_of_head, 1), 1,
                                            std::max<size_t>(heads, 1));
    return {static_cast<unsigned>(heads), static_cast<unsigned>(tiles),
            static_cast<unsigned>(group)};
  }
  dim3 grid() const { return dim3(heads * tiles); }

  struct Work {
    unsigned head, tile;  // tile 0 is to start first
  };
  __device__ Work of_block() const {
    const unsigned group = blockIdx.x / (heads_of_group * tiles);
    const unsigned in_group = blockIdx.x % (heads_of_group * tiles), first = group * heads_of_group;
    const unsigned count = heads - first < heads_of_group ? heads - first : heads_of_group;
    return {first + in_group % count, in_group / count};
  }
};

// Rows of kWidth elements of T in shared memory. 8 rows below each other begin in different
// groups of 4 banks, so that ldmatrix reads 16 bytes of each without conflict.
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
  static constexpr unsigned kRowsAtOnce = kThreads / kPacks;  // rows that are copied side by side
  static_assert(kThreads % kPacks == 0 && kRows % kRowsAtOnce == 0);

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
    for (unsigned row = 0; row < kRows; row += kRowsAtOnce, from += kRowsAtOnce * stride_) {
      begin_copy(reinterpret_cast<Packed*>(to + row * Tile::kPitch),
                 reinterpret_cast<const Packed*>(from), in_head_ && t0 + row_ + row < tokens_);
    }
  }
  // Copies the vectors of the next head from now on, which are `size` elements further.
  __device__ void next_head(size_t size) { from_ += size; }

 private:
  unsigned row_, column_;
  bool in_head_;
  unsigned tokens_;
  size_t stride_;
  const T* from_;
};

// Calls function(width) with the narrowest tile that holds a whole head.
template <class Function>
void dispatch_mma_width(size_t head_size, Function&& function) {
  if (head_size <= 32) return function(std::integral_constant<unsigned, 32>());
  if (head_size <= 64) return function(std::integral_constant<unsigned, 64>());
  function(std::integral_constant<unsigned, 128>());
}

}  // namespace ladder::cuda
