// Layernorm on the CPU: a thread has whole rows, or whole columns of dweight and dbias. Read
// kernels/cpu/plain_layernorm.h first.
#include "kernels/layernorm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {
namespace {

// Computes one row of the output, and its mean and rstd.
template <class T, class A = Accumulate<T>>
void forward_row(size_t n, T* out, A& mean, A& rstd, const T* in, const T* weight, const T* bias) {
  const A inverse = A{1} / static_cast<A>(n);
  const A m = inverse * lane_sum<A>(
                            n, [](auto v) { return v; }, in);
  const A variance = inverse * lane_sum<A>(
                                   n, [m](auto v) { return (v - m) * (v - m); }, in);
  const A s = A{1} / std::sqrt(variance + static_cast<A>(kLayernormEpsilon));
  map_in_thread([=](auto x, auto w, auto b) { return (x - m) * s * w + b; }, n, out, in, weight,
                bias);
  mean = m;
  rstd = s;
}

// Adds the gradient of one row to din.
template <class T, class A = Accumulate<T>>
void backward_row(size_t n, T* din, const T* dout, const T* in, const T* weight, A mean, A rstd) {
  const A inverse = A{1} / static_cast<A>(n);
  const A mean_g = inverse * lane_sum<A>(
                                 n, [](auto d, auto w) { return d * w; }, dout, weight);
  const A mean_gn =
      inverse *
      lane_sum<A>(
          n, [&](auto d, auto w, auto x) { return d * w * ((x - mean) * rstd); }, dout, weight, in);
  const auto added = [=](auto sum, auto d, auto w, auto x) {
    const auto normalized = (x - mean) * rstd;
    return sum + rstd * (d * w - mean_g - normalized * mean_gn);
  };
  map_in_thread(added, n, din, din, dout, weight, in);
}

// Adds to dweight and dbias, unless they are null, the sums over all rows, for `width` columns that
// begin at `first`.
template <size_t kColumns, class T, class A = Accumulate<T>>
void backward_columns(size_t first, size_t width, size_t rows, size_t n, A* dweight, A* dbias,
                      const T* dout, const T* in, const A* mean, const A* rstd) {
  const auto add_row = [&](auto& sums, size_t r) {
    const T *const d = dout + r * n + first, *const x = in + r * n + first;
    const A m = mean[r], s = rstd[r];
    map_tile([=](auto sum, auto dv, auto xv) { return sum + dv * ((xv - m) * s); }, width, sums[0],
             sums[0], d, x);
    map_tile([](auto sum, auto dv) { return sum + dv; }, width, sums[1], sums[1], d);
  };
  add_column_sums<kColumns>({dweight, dbias}, first, width, rows, add_row);
}

}  // namespace

void layernorm_forward(Stream&, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T *const x = in.as<T>(), *const w = weight.as<T>(), *const b = bias.as<T>();
    T* const o = out.as<T>();
    A *const m = mean.as<A>(), *const s = rstd.as<A>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) forward_row(n, o + r * n, m[r], s[r], x + r * n, w, b);
  });
}

void layernorm_backward(Stream&, TensorView din, TensorView dweight, TensorView dbias,
                        ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                        ConstTensorView mean, ConstTensorView rstd) {
  constexpr size_t kColumns = 64;
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    A* const dw = dweight.empty() ? nullptr : dweight.as<A>();
    A* const db = dbias.empty() ? nullptr : dbias.as<A>();
    const size_t columns = dw == nullptr && db == nullptr ? 0 : n;
    const T *const d = dout.as<T>(), *const x = in.as<T>(), *const w = weight.as<T>();
    const A *const m = mean.as<A>(), *const s = rstd.as<A>();
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
      for (size_t r = 0; r < rows; ++r) {
        backward_row(n, dx + r * n, d + r * n, x + r * n, w, m[r], s[r]);
      }
      // Columns are summed by one thread each, so no thread waits for another's partial sums.
#pragma omp for schedule(static)
      for (size_t first = 0; first < columns; first += kColumns) {
        backward_columns<kColumns>(first, std::min(kColumns, n - first), rows, n, dw, db, d, x, m,
                                   s);
      }
    }
  });
}

}  // namespace ladder::cpu
