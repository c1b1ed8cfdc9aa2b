// The matrix product under matmul and attention.
#pragma once

#include <cstddef>

#include "kernels/runtime/low_precision.h"

namespace ladder::cpu {

// A matrix in memory: row i of the stored matrix begins at data + i * stride.
template <class T>
struct Matrix {
  const T* data;
  size_t stride;
  bool transposed = false;  // use the transpose of what is stored
};

// out (m, n) = a (m, k) b (k, n), or += with accumulate; out's rows are out_stride apart.
// fp32 by oneDNN, bf16 too where the CPU has instructions for it (AVX512_BF16); fp64, fp16 and bf16
// elsewhere by our own loop. Inside a parallel region it runs on the calling thread.
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

// The same by our own loop, whose order over k depends on k alone: the same bits on every machine
// and for every number of threads. Each factor is widened as it is packed, sums are rounded once.
// Instances: fp64; bf16 and fp16 with an output of the same or fp32.
template <class T, class Out>
void blocked_gemm(size_t m, size_t n, size_t k, Matrix<T> a, Matrix<T> b, bool accumulate, Out* out,
                  size_t out_stride);

}  // namespace ladder::cpu
