#include "kernels/layernorm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/lanes.h"

namespace ladder::cpu {
namespace {

// din += the gradient of one row.
template <class T>
void backward_row(size_t n, T* din, const T* dout, const T* in, const T* weight, T mean, T rstd) {
  const T inverse = T{1} / static_cast<T>(n);
  const T mean_g = inverse * lane_sum<T>(
                                 n, [](auto d, auto w) { return d * w; }, dout, weight);
  const T mean_gn =
      inverse *
      lane_sum<T>(
          n, [&](auto d, auto w, auto x) { return d * w * ((x - mean) * rstd); }, dout, weight, in);
  for (size_t i = 0; i < n; ++i) {
    const T normalized = (in[i] - mean) * rstd;
    din[i] += rstd * (dout[i] * weight[i] - mean_g - normalized * mean_gn);
  }
}

// dweight += and dbias += the sums over all rows of `width` columns from `first`.
template <class T>
void backward_columns(size_t first, size_t width, size_t rows, size_t n, T* dweight, T* dbias,
                      const T* dout, const T* in, const T* mean, const T* rstd) {
  constexpr size_t kColumns = 64, kRows = 64;  // rows in groups, so that rounding grows slowly
  T dw[kColumns] = {}, db[kColumns] = {};
  for (size_t r0 = 0; r0 < rows; r0 += kRows) {
    T group_dw[kColumns] = {}, group_db[kColumns] = {};
    for (size_t r = r0; r < std::min(rows, r0 + kRows); ++r) {
      const T* d = dout + r * n + first;
      const T* x = in + r * n + first;
      for (size_t i = 0; i < width; ++i) {
        group_dw[i] += d[i] * ((x[i] - mean[r]) * rstd[r]);
        group_db[i] += d[i];
      }
    }
    for (size_t i = 0; i < width; ++i) {
      dw[i] += group_dw[i];
      db[i] += group_db[i];
    }
  }
  for (size_t i = 0; i < width; ++i) {
    dweight[first + i] += dw[i];
    dbias[first + i] += db[i];
  }
}

}  // namespace

void layernorm_forward(TensorView out, TensorView mean, TensorView rstd, ConstTensorView in,
                       ConstTensorView weight, ConstTensorView bias) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *w = weight.as<T>(), *b = bias.as<T>();
    const T* const all_in = in.as<T>();
    T *const all_out = out.as<T>(), *const means = mean.as<T>(), *const rstds = rstd.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const T* x = all_in + r * n;
      T* o = all_out + r * n;
      const T inverse = T{1} / static_cast<T>(n);
      const T m = inverse * lane_sum<T>(
                                n, [](auto v) { return v; }, x);
      const T variance = inverse * lane_sum<T>(
                                       n, [m](auto v) { return (v - m) * (v - m); }, x);
      const T s = T{1} / std::sqrt(variance + static_cast<T>(kLayernormEpsilon));
      for (size_t i = 0; i < n; ++i) o[i] = (x[i] - m) * s * w[i] + b[i];
      means[r] = m;
      rstds[r] = s;
    }
  });
}

void layernorm_backward(TensorView din, TensorView dweight, TensorView dbias, ConstTensorView dout,
                        ConstTensorView in, ConstTensorView weight, ConstTensorView mean,
                        ConstTensorView rstd) {
  constexpr size_t kColumns = 64;
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T *const dx = din.as<T>(), *const dw = dweight.as<T>(), *const db = dbias.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>(), *const w = weight.as<T>();
    const T *const m = mean.as<T>(), *const s = rstd.as<T>();
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
      for (size_t r = 0; r < rows; ++r) {
        backward_row(n, dx + r * n, d + r * n, x + r * n, w, m[r], s[r]);
      }
      // Columns are summed by one thread each, so no thread waits for another's partial sums.
#pragma omp for schedule(static)
      for (size_t first = 0; first < n; first += kColumns) {
        backward_columns(first, std::min(kColumns, n - first), rows, n, dw, db, d, x, m, s);
      }
    }
  });
}

}  // namespace ladder::cpu
