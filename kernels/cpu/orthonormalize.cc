#include "kernels/orthonormalize.h"

#include <cmath>

#include "kernels/cpu/lane_sum.h"

namespace ladder::cpu {
namespace {

template <class T>
T dot(const T* a, const T* b, size_t n) {
  return lane_sum<T>(
      n, [](auto x, auto y) { return x * y; }, a, b);
}

// Subtracts the row's projections on rows [0, before). Returns the squared length that is left.
template <class T>
T project(T* matrix, size_t before, size_t n) {
  T* const row = matrix + before * n;
  for (size_t r = 0; r < before; ++r) {
    const T* const other = matrix + r * n;
    const T along = dot(row, other, n);
    for (size_t i = 0; i < n; ++i) row[i] -= along * other[i];
  }
  return dot(row, row, n);
}

}  // namespace

void orthonormalize(Stream&, TensorView matrix) {
  const size_t rows = matrix.shape()[0], n = matrix.shape()[1];
  dispatch_accumulation(matrix.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const all = matrix.as<T>();
    for (size_t r = 0; r < rows; ++r) {
      T* const row = all + r * n;
      const T whole = dot(row, row, n);
      T left = project(all, r, n);
      bool depends = left <= static_cast<T>(kDependent) * whole;
      for (size_t axis = 0; depends && axis <= r; ++axis) {
        for (size_t i = 0; i < n; ++i) row[i] = i == axis ? 1 : 0;
        left = project(all, r, n);
        depends = left < least_left<T>(r);
      }
      const T factor = 1 / std::sqrt(left);
      for (size_t i = 0; i < n; ++i) row[i] *= factor;
    }
  });
}

}  // namespace ladder::cpu
