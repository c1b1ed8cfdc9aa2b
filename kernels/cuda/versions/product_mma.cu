// The product on tensor cores, with copies that go on while they multiply. Tiles stay bf16. Shared
// memory has three of A and three of B: one is multiplied, two arrive. ../tensor_core.h and
// ../README.md explain the instructions.
#include "kernels/cuda/attention_mma_products.h"
#include "kernels/cuda/versions/product.h"

namespace ladder::cuda {
namespace {

// A thread block has a tile of C, and goes through K in slices of kDepth. It has 2 x 2 warps; a
// warp has a quarter of the tile: 4 x 8 accumulators of 16 x 8 elements.
constexpr unsigned kTile = 128, kDepth = 32, kStages = 3;
constexpr unsigned kThreads = 4 * kWarpSize, kOfWarp = kTile / 2;
constexpr unsigned kM = kOfWarp / 16, kN = kOfWarp / 8;

// A stage: a tile of A (128, 32) and one of B (32, 128).
struct Stage {
  using TileA = MmaTile<bfloat16, kDepth>;
  using TileB = MmaTile<bfloat16, kTile>;
  static constexpr unsigned kElements = TileA::elements(kTile) + TileB::elements(kDepth);

  TileA a;
  TileB b;

  // Returns the stage of slice `number` of K.
  static __device__ Stage of(unsigned number) {
    bfloat16* const first = dynamic_shared<bfloat16>() + number % kStages * kElements;
    return {{first}, {first + TileA::elements(kTile)}};
  }
};

// Begins to copy a tile of a matrix whose rows have `pitch` elements. The tile's first element is
// at `from`. From there on the matrix has `rows` rows and `columns` columns; after these come
// zeros.
template <unsigned kRows, unsigned kWidth>
__device__ void begin_tile(const MmaTile<bfloat16, kWidth>& tile, const bfloat16* from,
                           size_t pitch, unsigned rows, unsigned columns) {
  using Packed = Pack<bfloat16, 8>;
  constexpr unsigned kPacks = kWidth / 8, kRowsAtOnce = kThreads / kPacks;
  const unsigned first = threadIdx.x / kPacks, column = threadIdx.x % kPacks * 8;
  from += first * pitch + column;
  for (unsigned row = 0; row < kRows; row += kRowsAtOnce, from += kRowsAtOnce * pitch) {
    begin_copy(reinterpret_cast<Packed*>(tile.at(first + row, column)),
               reinterpret_cast<const Packed*>(from), first + row < rows && column < columns);
  }
}

// Adds the product of a stage's tiles to the quarter from (row, column) on. What is loaded of B
// serves four products, what is loaded of A eight.
__device__ void add_stage(float (&sums)[kM][kN][4], const Stage& stage, unsigned row,
                          unsigned column) {
  for (unsigned k = 0; k < kDepth; k += 16) {
    Fragment x[kM], y;
    for (unsigned m = 0; m < kM; ++m) load_matrices(x[m], stage.a.down(row + 16 * m, k));
    for (unsigned n = 0; n < kN; n += 2) {
      load_transposed(y, stage.b.down(k, column + 8 * n));
      for (unsigned m = 0; m < kM; ++m) {
        mma<bfloat16>(sums[m][n], x[m], y[0], y[1]);
        mma<bfloat16>(sums[m][n + 1], x[m], y[2], y[3]);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) mma_product_kernel(Product p) {
  const unsigned row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  const unsigned row = warp_index() / 2 * kOfWarp, column = warp_index() % 2 * kOfWarp;
  const unsigned slices = (p.k + kDepth - 1) / kDepth;
  const bfloat16 *const a = p.a + size_t{row0} * p.k, *const b = p.b + column0;
  const auto begin_slice = [&](unsigned slice) {
    const Stage stage = Stage::of(slice);
    const unsigned k0 = slice * kDepth;
    if (k0 < p.k) {
      begin_tile<kTile>(stage.a, a + k0, p.k, p.m - row0, p.k - k0);
      begin_tile<kDepth>(stage.b, b + size_t{k0} * p.n, p.n, p.k - k0, p.n - column0);
    }
    commit_copies();  // an empty group, too: wait_for_copies counts groups
  };
  for (unsigned slice = 0; slice + 1 < kStages; ++slice) begin_slice(slice);
  float sums[kM][kN][4] = {};
  for (unsigned slice = 0; slice < slices; ++slice) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // all copies of this slice have ended, and the one before is done
    begin_slice(slice + kStages - 1);
    add_stage(sums, Stage::of(slice), row, column);
  }
  for_each_pair(sums, [=](unsigned i, unsigned j, float x, float y) {
    const unsigned in_c = row0 + row + i, of_c = column0 + column + j;
    if (in_c >= p.m || of_c >= p.n) return;
    store(p.c + size_t{in_c} * p.n + of_c, Pack<float, 2>{x, y});
  });
}

}  // namespace

void product_mma(cudaStream_t stream, const Product& product) {
  launch<mma_product_kernel>(stream,
                             {tiles_of(product, kTile, kTile), dim3(kThreads),
                              kStages * Stage::kElements * sizeof(bfloat16)},
                             product);
}

}  // namespace ladder::cuda
