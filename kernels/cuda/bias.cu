#include "kernels/matmul.h"

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/map.h"

namespace ladder::cuda {
namespace {

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void __launch_bounds__(kColumnThreads, 1)
    bias_backward_kernel(A* dbias, const T* dout, size_t rows, size_t columns) {
  const auto fetch = [&](size_t row, size_t column) {
    return load<N>(dout + row * columns + column);
  };
  add_column_sums<N>({dbias}, rows, columns, fetch, [](auto& sums, const auto& d) {
    for (unsigned k = 0; k < N; ++k) sums[0][k] += d.element[k];
  });
}

}  // namespace

void add_bias(Stream& stream, TensorView out, ConstTensorView bias) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    map_rows(stream, Sum(), out.num_elements(), out.shape()[1], o, bias.as<T>(), o);
  });
}

void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout) {
  const size_t rows = dout.shape()[0], columns = dout.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const d = dout.as<T>();
    dispatch_columns<T>(
        columns,
        [&](auto n) {
          launch<bias_backward_kernel<decltype(n)::value, T>>(
              stream.native(), column_slices(columns, n), dbias.as<Accumulate<T>>(), d, rows,
              columns);
        },
        d);
  });
}

}  // namespace ladder::cuda
