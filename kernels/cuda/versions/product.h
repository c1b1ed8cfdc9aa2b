// What the versions of the product have in common. README.md tells in which order to read them.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/runtime/low_precision.h"

namespace ladder::cuda {

// C (M, N) = A (M, K) B (K, N), in bf16. All three are stored row by row, without gaps. Sums are
// fp32, and a sum is rounded once, when it is stored.
struct Product {
  bfloat16* c;
  const bfloat16 *a, *b;
  unsigned m, n, k;
};

// Each version is a function of one file. It is asynchronous on the stream. Those from
// product_vectorized on move packs of 8 elements. REQUIRES of these: K and N are multiples of 8,
// and the matrices begin at multiples of 16 bytes.
void product_naive(cudaStream_t stream, const Product& product);
void product_tiled(cudaStream_t stream, const Product& product);
void product_vectorized(cudaStream_t stream, const Product& product);
void product_mma(cudaStream_t stream, const Product& product);

// Returns a thread block for each tile of C. Tiles side by side start one after the other: they
// read the same rows of A.
inline dim3 tiles_of(const Product& product, unsigned rows, unsigned columns) {
  return dim3((product.n + columns - 1) / columns, (product.m + rows - 1) / rows);
}

}  // namespace ladder::cuda
