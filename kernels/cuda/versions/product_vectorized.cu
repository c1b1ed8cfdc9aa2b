// The vectorized product. A thread has 8 x 8 elements of C instead of one. So it loads 8 elements
// of A and 8 of B, in packs of 16 bytes, and multiplies each with each: 64 multiply-adds for four
// loads.
#include <cmath>

#include "kernels/cuda/pack.h"
#include "kernels/cuda/versions/product.h"

namespace ladder::cuda {
namespace {

// A thread block has a tile of C, and goes through K in slices of kDepth.
constexpr unsigned kTile = 128, kDepth = 16;
constexpr unsigned kSide = 16, kThreads = kSide * kSide;  // 16 x 16 threads
// A thread has 4 rows in the upper half of the tile and 4 in the lower one, and so with columns.
// Were it 8 neighbours, two threads in four would want the same banks of shared memory.
constexpr unsigned kPackOfTile = 4, kHalf = kTile / 2, kOwn = 2 * kPackOfTile;

// Element i of the thread's rows or columns, if its first one is number `first` of its half.
__device__ unsigned own(unsigned first, unsigned i) {
  return i / kPackOfTile * kHalf + first + i % kPackOfTile;
}

// Returns 8 neighbours of a matrix, or zeros after its end.
__device__ Pack<float, 8> pack_at(const bfloat16* matrix, unsigned rows, unsigned columns,
                                  unsigned row, unsigned column) {
  if (row >= rows || column >= columns) return {};
  return load<8>(matrix + size_t{row} * columns + column);
}

__global__ void __launch_bounds__(kThreads, 2) vectorized_product_kernel(Product p) {
  // A is stored column by column: then a thread's 4 rows are a pack, too.
  alignas(16) __shared__ float a[kDepth][kTile + kPackOfTile], b[kDepth][kTile];
  const unsigned row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  // Which pack of each tile this thread fetches: a row of A is 2 packs, a row of B is 16.
  const unsigned a_row = threadIdx.x / 2, a_column = threadIdx.x % 2 * 8;
  const unsigned b_row = threadIdx.x / 16, b_column = threadIdx.x % 16 * 8;
  const unsigned y = threadIdx.x / kSide * kPackOfTile, x = threadIdx.x % kSide * kPackOfTile;
  float sums[kOwn][kOwn] = {};
  for (unsigned k0 = 0; k0 < p.k; k0 += kDepth) {
    const Pack<float, 8> of_a = pack_at(p.a, p.m, p.k, row0 + a_row, k0 + a_column);
    const Pack<float, 8> of_b = pack_at(p.b, p.k, p.n, k0 + b_row, column0 + b_column);
    __syncthreads();  // all threads have read the tiles before
    for (unsigned i = 0; i < 8; ++i) a[a_column + i][a_row] = of_a.element[i];
    for (unsigned i = 0; i < 8; i += kPackOfTile) {
      const float* const from = of_b.element + i;
      store(&b[b_row][b_column + i], Pack<float, 4>{from[0], from[1], from[2], from[3]});
    }
    __syncthreads();  // the tiles are there
    for (unsigned k = 0; k < kDepth; ++k) {
      const Pack<float, 4> rows[2] = {load<4>(&a[k][y]), load<4>(&a[k][kHalf + y])};
      const Pack<float, 4> columns[2] = {load<4>(&b[k][x]), load<4>(&b[k][kHalf + x])};
      for (unsigned i = 0; i < kOwn; ++i) {
        for (unsigned j = 0; j < kOwn; ++j) {
          sums[i][j] =
              std::fma(rows[i / 4].element[i % 4], columns[j / 4].element[j % 4], sums[i][j]);
        }
      }
    }
  }
  for (unsigned i = 0; i < kOwn; ++i) {
    const unsigned row = row0 + own(y, i);
    for (unsigned j = 0; j < kOwn; j += kPackOfTile) {
      const unsigned column = column0 + own(x, j);
      if (row >= p.m || column >= p.n) continue;
      const float* const from = sums[i] + j;
      store(p.c + size_t{row} * p.n + column, Pack<float, 4>{from[0], from[1], from[2], from[3]});
    }
  }
}

}  // namespace

void product_vectorized(cudaStream_t stream, const Product& product) {
  launch<vectorized_product_kernel>(stream, {tiles_of(product, kTile, kTile), dim3(kThreads)},
                                    product);
}

}  // namespace ladder::cuda
