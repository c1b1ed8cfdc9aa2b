#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/gemm.h"

namespace ladder::cpu {

void matmul(TensorView out, ConstTensorView a, ConstTensorView b, MatmulOptions options) {
  const size_t m = out.shape()[0], n = out.shape()[1];
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    gemm(m, n, k, Matrix<T>{a.as<T>(), a.shape()[1], options.transpose_a},
         Matrix<T>{b.as<T>(), b.shape()[1], options.transpose_b}, options.accumulate, out.as<T>(),
         n);
  });
}

void add_bias(TensorView out, ConstTensorView bias) {
  const size_t rows = out.shape()[0], n = out.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const b = bias.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < n; ++i) o[r * n + i] += b[i];
    }
  });
}

void bias_backward(TensorView dbias, ConstTensorView dout) {
  constexpr size_t kColumns = 256;  // a thread's share of the columns, summed in its L1 cache
  constexpr size_t kRows = 64;      // rows are summed in groups, so that rounding grows slowly
  const size_t rows = dout.shape()[0], n = dout.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const db = dbias.as<T>();
    const T* const d = dout.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < n; first += kColumns) {
      const size_t width = std::min(kColumns, n - first);
      T total[kColumns] = {};
      for (size_t r0 = 0; r0 < rows; r0 += kRows) {
        T group[kColumns] = {};
        for (size_t r = r0; r < std::min(rows, r0 + kRows); ++r) {
          for (size_t i = 0; i < width; ++i) group[i] += d[r * n + first + i];
        }
        for (size_t i = 0; i < width; ++i) total[i] += group[i];
      }
      for (size_t i = 0; i < width; ++i) db[first + i] += total[i];
    }
  });
}

}  // namespace ladder::cpu
