#include "kernels/orthonormalize.h"

#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__device__ T dot(const T* a, const T* b, size_t n) {
  T sum = 0;
  for (size_t i = threadIdx.x; i < n; i += kThreads) sum += a[i] * b[i];
  return block_sum(sum);
}

// As on the CPU (kernels/cpu/orthonormalize.cc). Each thread reads and writes its own elements of
// every row, so only the dot products need the others.
template <class T>
__device__ T project(T* matrix, size_t before, size_t n) {
  T* const row = matrix + before * n;
  for (size_t r = 0; r < before; ++r) {
    const T* const other = matrix + r * n;
    const T along = dot(row, other, n);
    for (size_t i = threadIdx.x; i < n; i += kThreads) row[i] -= along * other[i];
  }
  return dot(row, row, n);
}

template <class T>
__global__ void orthonormalize_kernel(T* all, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    T* const row = all + r * n;
    const T whole = dot(row, row, n);
    T left = project(all, r, n);
    bool depends = left <= static_cast<T>(kDependent) * whole;
    for (size_t axis = 0; depends && axis <= r; ++axis) {
      for (size_t i = threadIdx.x; i < n; i += kThreads) row[i] = i == axis ? 1 : 0;
      left = project(all, r, n);
      depends = left < least_left<T>(r);
    }
    const T factor = 1 / std::sqrt(left);
    for (size_t i = threadIdx.x; i < n; i += kThreads) row[i] *= factor;
  }
}

}  // namespace

void orthonormalize(Stream& stream, TensorView matrix) {
  dispatch_accumulation(matrix.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<orthonormalize_kernel<T>>(stream.native(), {dim3(1), dim3(kThreads)}, matrix.as<T>(),
                                     matrix.shape()[0], matrix.shape()[1]);
  });
}

}  // namespace ladder::cuda
