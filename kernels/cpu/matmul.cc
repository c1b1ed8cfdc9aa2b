#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {

void matmul(Stream&, TensorView out, ConstTensorView a, ConstTensorView b, MatmulOptions options) {
  const size_t m = out.shape()[0], n = out.shape()[1];
  const size_t k = a.shape()[options.transpose_a ? 0 : 1];
  dispatch_float(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto multiply_into = [&](auto* elements) {
      gemm(m, n, k, Matrix<T>{a.as<T>(), a.pitch(), options.transpose_a},
           Matrix<T>{b.as<T>(), b.pitch(), options.transpose_b}, options.accumulate, elements,
           out.pitch());
    };
    if (out.dtype() == dtype_of<T>) return multiply_into(out.as<T>());
    multiply_into(out.as<Accumulate<T>>());
  });
}

void add_bias(Stream&, TensorView out, ConstTensorView bias) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    map_rows([](auto b, auto x) { return x + b; }, out.shape()[0], out.shape()[1], 1, o,
             bias.as<T>(), o);
  });
}

void bias_backward(Stream&, TensorView dbias, ConstTensorView dout) {
  constexpr size_t kColumns = 256;  // a thread's share of the columns, summed in its L1 cache
  const size_t rows = dout.shape()[0], n = dout.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A* const db = dbias.as<A>();
    const T* const d = dout.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < n; first += kColumns) {
      const size_t width = std::min(kColumns, n - first);
      add_column_sums<kColumns>({db}, first, width, rows, [&](auto& sums, size_t r) {
        map_tile([](auto sum, auto x) { return sum + x; }, width, sums[0], sums[0],
                 d + r * n + first);
      });
    }
  });
}

}  // namespace ladder::cpu
