// RMSNorm on the CPU: a thread has whole rows, or whole columns of dweight. Read
// kernels/cpu/plain_rmsnorm.h first.
#include "kernels/rmsnorm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/rmsnorm_row.h"

namespace ladder::cpu {
namespace {

// Adds the gradient of one row to din.
template <class T, class A = Accumulate<T>>
void backward_row(size_t n, T* din, const T* dout, const T* in, const T* weight, A rstd) {
  const A mean_gn = rmsnorm_mean_gn(n, dout, in, weight, rstd);
  const auto added = [=](auto sum, auto d, auto w, auto x) {
    return sum + rstd * (d * w - x * rstd * mean_gn);
  };
  map_in_thread(added, n, din, din, dout, weight, in);
}

}  // namespace

void rmsnorm_forward(Stream&, TensorView out, TensorView rstd, ConstTensorView in,
                     ConstTensorView weight, double epsilon) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T *const x = in.as<T>(), *const w = weight.as<T>();
    T* const o = out.as<T>();
    A* const s = rstd.as<A>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      s[r] = A{1} / std::sqrt(mean_square(n, x + r * n) + static_cast<A>(epsilon));
      rmsnorm_row(n, o + r * n, x + r * n, w, s[r]);
    }
  });
}

void rmsnorm_backward(Stream&, TensorView din, TensorView dweight, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView weight, ConstTensorView rstd) {
  constexpr size_t kColumns = 64;
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    A* const dw = dweight.empty() ? nullptr : dweight.as<A>();
    const size_t columns = dw == nullptr ? 0 : n;
    const T *const d = dout.as<T>(), *const x = in.as<T>(), *const w = weight.as<T>();
    const A* const s = rstd.as<A>();
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
      for (size_t r = 0; r < rows; ++r) {
        backward_row(n, dx + r * n, d + r * n, x + r * n, w, s[r]);
      }
#pragma omp for schedule(static)
      for (size_t first = 0; first < columns; first += kColumns) {
        const size_t width = std::min(kColumns, n - first);
        add_column_sums<kColumns>({dw}, first, width, rows, [&](auto& sums, size_t r) {
          map_tile([rstd = s[r]](auto sum, auto dv, auto xv) { return sum + dv * (xv * rstd); },
                   width, sums[0], sums[0], d + r * n + first, x + r * n + first);
        });
      }
    }
  });
}

}  // namespace ladder::cpu
