// The matrix product on the CPU, which matmul and attention call.
#pragma once

#include <cstddef>

#include "kernels/runtime/low_precision.h"

namespace ladder::cpu {

// A matrix in memory. Row i of the stored matrix begins at data + i * stride.
template <class T>
struct Matrix {
  const T* data;
  size_t stride;
  bool transposed = false;  // true: this is the transpose of the stored matrix
};

// out (m, n) = a (m, k) b (k, n), or += with accumulate. Rows of out are out_stride apart. oneDNN
// computes fp32, and also bf16 if the CPU has instructions for it (AVX512_BF16); our own loop
// computes everything else. Inside a parallel region it runs on the calling thread.
// REQUIRES: m, n, k >= 1.
void gemm(size_t m, size_t n, size_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
          float* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<double> a, Matrix<double> b, bool accumulate,
          double* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b, bool accumulate,
          float* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<bfloat16> a, Matrix<bfloat16> b, bool accumulate,
          bfloat16* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<float16> a, Matrix<float16> b, bool accumulate,
          float* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<float16> a, Matrix<float16> b, bool accumulate,
          float16* out, size_t out_stride);

// The same product by our own loop. Its order over k depends only on k, so the bits are the same on
// every machine and for every number of threads. Factors are converted to the accumulation dtype
// when they are packed, and sums are rounded once. It exists for fp64, and for bf16 and fp16 with
// an output of the same dtype or fp32.
template <class T, class Out>
void blocked_gemm(size_t m, size_t n, size_t k, Matrix<T> a, Matrix<T> b, bool accumulate, Out* out,
                  size_t out_stride);

}  // namespace ladder::cpu
