#include "kernels/columns.h"

#include "kernels/cpu/map.h"

namespace ladder::cpu {

void copy_columns(Stream&, TensorView out, size_t out_first, ConstTensorView in, size_t in_first,
                  size_t count) {
  const size_t rows = out.shape()[0], n = out.shape()[1], m = in.shape()[1];
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      auto* const o = out.as<decltype(out_zero)>() + out_first;
      const auto* const x = in.as<decltype(in_zero)>() + in_first;
#pragma omp parallel for schedule(static)
      for (size_t r = 0; r < rows; ++r) convert(o + r * n, x + r * m, count);
    });
  });
}

}  // namespace ladder::cpu
