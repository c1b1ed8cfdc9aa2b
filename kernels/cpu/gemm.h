// The matrix product under matmul and attention.
#pragma once

#include <cstddef>

namespace ladder::cpu {

// A matrix in memory: row i of the stored matrix begins at data + i * stride.
template <class T>
struct Matrix {
  const T* data;
  size_t stride;
  bool transposed = false;  // use the transpose of what is stored
};

// out (m, n) = a (m, k) b (k, n), or += with accumulate; out's rows are out_stride apart.
// fp32 by oneDNN, fp64 by our own blocked loop, whose order over k depends on k alone. Inside a
// parallel region it runs on the calling thread. REQUIRES: m, n, k >= 1.
void gemm(size_t m, size_t n, size_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
          float* out, size_t out_stride);
void gemm(size_t m, size_t n, size_t k, Matrix<double> a, Matrix<double> b, bool accumulate,
          double* out, size_t out_stride);

}  // namespace ladder::cpu
