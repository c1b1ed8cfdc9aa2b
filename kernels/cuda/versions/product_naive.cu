// The naive product: the formula. A thread computes one element of C. For that it reads a row of A
// and a column of B.
#include <cmath>

#include "kernels/cuda/versions/product.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kRows = 8;  // of a thread block: a row for each warp

// The 32 threads of a warp have neighbours in a row of C. So they read the same element of A, and
// neighbours in a row of B: 2 bytes and 64 bytes for 32 multiplications.
__global__ void naive_product_kernel(Product p) {
  const unsigned row = blockIdx.y * kRows + warp_index();
  const unsigned column = blockIdx.x * kWarpSize + lane_index();
  if (row >= p.m || column >= p.n) return;
  float sum = 0;
  for (unsigned k = 0; k < p.k; ++k) {
    const float a = p.a[size_t{row} * p.k + k], b = p.b[size_t{k} * p.n + column];
    sum = std::fma(a, b, sum);
  }
  p.c[size_t{row} * p.n + column] = bfloat16(sum);
}

}  // namespace

void product_naive(cudaStream_t stream, const Product& product) {
  launch<naive_product_kernel>(
      stream, {tiles_of(product, kRows, kWarpSize), dim3(kRows * kWarpSize)}, product);
}

}  // namespace ladder::cuda
