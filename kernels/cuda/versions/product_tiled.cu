// The tiled product. The threads of a thread block compute a tile of C together. They read a tile
// of A and a tile of B from memory, each element once, and use each 32 times.
#include <cmath>

#include "kernels/cuda/versions/product.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kTile = 32, kThreads = kTile * kTile;  // a thread for each element of a tile

__global__ void __launch_bounds__(kThreads) tiled_product_kernel(Product p) {
  static_assert(kTile == kWarpSize);  // a warp has a row of the tile
  __shared__ float a[kTile][kTile], b[kTile][kTile];
  const unsigned y = warp_index(), x = lane_index();
  const unsigned row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (unsigned k0 = 0; k0 < p.k; k0 += kTile) {
    // What is outside of A or B is 0, and adds nothing.
    a[y][x] = row < p.m && k0 + x < p.k ? float{p.a[size_t{row} * p.k + k0 + x]} : 0;
    b[y][x] = k0 + y < p.k && column < p.n ? float{p.b[size_t{k0 + y} * p.n + column]} : 0;
    __syncthreads();  // all threads have stored their elements
    for (unsigned k = 0; k < kTile; ++k) sum = std::fma(a[y][k], b[k][x], sum);
    __syncthreads();  // all threads have read the tiles
  }
  if (row < p.m && column < p.n) p.c[size_t{row} * p.n + column] = bfloat16(sum);
}

}  // namespace

void product_tiled(cudaStream_t stream, const Product& product) {
  launch<tiled_product_kernel>(stream, {tiles_of(product, kTile, kTile), dim3(kThreads)}, product);
}

}  // namespace ladder::cuda
