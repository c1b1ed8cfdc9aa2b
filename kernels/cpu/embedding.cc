#include <algorithm>

#include "kernels/cpu/bodies.h"

namespace ladder::cpu {

void embedding_forward(TensorView out, ConstTensorView tokens, ConstTensorView table) {
  const size_t rows = tokens.num_elements(), n = table.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const w = table.as<T>();
    const int32_t* const token = tokens.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      std::copy_n(w + static_cast<size_t>(token[r]) * n, n, o + r * n);
    }
  });
}

void embedding_backward(TensorView dtable, ConstTensorView tokens, ConstTensorView dout) {
  constexpr size_t kColumns = 64;  // a thread has columns to itself: no two write the same element
  const size_t rows = tokens.num_elements(), n = dtable.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const dw = dtable.as<T>();
    const T* const d = dout.as<T>();
    const int32_t* const token = tokens.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < n; first += kColumns) {
      const size_t last = std::min(n, first + kColumns);
      for (size_t r = 0; r < rows; ++r) {
        T* const row = dw + static_cast<size_t>(token[r]) * n;
        for (size_t i = first; i < last; ++i) row[i] += d[r * n + i];
      }
    }
  });
}

void position_forward(TensorView out, ConstTensorView table) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], n = out.shape()[2];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const w = table.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < batch * tokens; ++r) {
      const size_t t = r % tokens;
      for (size_t i = 0; i < n; ++i) o[r * n + i] += w[t * n + i];
    }
  });
}

void position_backward(TensorView dtable, ConstTensorView dout) {
  const size_t batch = dout.shape()[0], tokens = dout.shape()[1], n = dout.shape()[2];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const dw = dtable.as<T>();
    const T* const d = dout.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t b = 0; b < batch; ++b) {
        const T* const row = d + (b * tokens + t) * n;
        for (size_t i = 0; i < n; ++i) dw[t * n + i] += row[i];
      }
    }
  });
}

}  // namespace ladder::cpu
