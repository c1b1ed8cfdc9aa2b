// RMSNorm of heads on the CPU: a thread has whole rows, or some columns of dweight. Read
// kernels/cpu/plain_rmsnorm.h first.
#include "kernels/head_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/rmsnorm_row.h"

namespace ladder::cpu {

void head_norm_forward(Stream&, TensorView x, TensorView before, TensorView rstd, HeadRange heads,
                       ConstTensorView weight, double epsilon) {
  const size_t n = weight.shape()[0], count = rstd.num_elements();
  const HeadOffsets offset(x, heads, n);
  dispatch_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T *const elements = x.as<T>(), *const saved = before.as<T>();
    A* const s = rstd.as<A>();
    const T* const w = weight.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t h = 0; h < count; ++h) {
      T* const head = elements + offset(h);
      std::copy_n(head, n, saved + h * n);
      s[h] = A{1} / std::sqrt(mean_square(n, head) + static_cast<A>(epsilon));
      rmsnorm_row(n, head, head, w, s[h]);
    }
  });
}

void head_norm_backward(Stream&, TensorView dx, TensorView dweight, HeadRange heads,
                        ConstTensorView before, ConstTensorView weight, ConstTensorView rstd) {
  constexpr size_t kColumns = 16;  // heads are narrow, and all threads should have some
  const size_t n = weight.shape()[0], count = rstd.num_elements();
  const HeadOffsets offset(dx, heads, n);
  dispatch_float(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const d = dx.as<T>();
    A* const dw = dweight.empty() ? nullptr : dweight.as<A>();
    const size_t columns = dw == nullptr ? 0 : n;
    const T *const x = before.as<T>(), *const w = weight.as<T>();
    const A* const s = rstd.as<A>();
#pragma omp parallel
    {
      // All of dx is read before any of it is overwritten.
#pragma omp for schedule(static)
      for (size_t first = 0; first < columns; first += kColumns) {
        const size_t width = std::min(kColumns, n - first);
        add_column_sums<kColumns>({dw}, first, width, count, [&](auto& sums, size_t h) {
          map_tile([r = s[h]](auto sum, auto dv, auto xv) { return sum + dv * (xv * r); }, width,
                   sums[0], sums[0], d + offset(h) + first, x + h * n + first);
        });
      }
#pragma omp for schedule(static)
      for (size_t h = 0; h < count; ++h) {
        T* const head = d + offset(h);
        const A r = s[h], mean_gn = rmsnorm_mean_gn(n, head, x + h * n, w, r);
        const auto gradient = [=](auto dv, auto wv, auto xv) {
          return r * (dv * wv - xv * r * mean_gn);
        };
        map_in_thread(gradient, n, head, head, w, x + h * n);
      }
    }
  });
}

}  // namespace ladder::cpu
