#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cpu/map.h"
#include "kernels/vocabulary.h"

namespace ladder::cpu {

void embedding_forward(Stream&, TensorView out, ConstTensorView tokens, ConstTensorView table,
                       size_t first) {
  const size_t rows = tokens.num_elements(), words = table.shape()[0], n = table.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const w = table.as<T>();
    const int32_t* const token = tokens.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const size_t word = index_in_slice(token[r], first, words);
      if (word < words) {
        std::copy_n(w + word * n, n, o + r * n);
      } else {
        std::fill_n(o + r * n, n, T{});
      }
    }
  });
}

void embedding_backward(Stream&, TensorView dtable, ConstTensorView tokens, ConstTensorView dout,
                        size_t first) {
  constexpr size_t kColumns = 64;  // a thread has columns to itself: no two write the same element
  const size_t rows = tokens.num_elements(), words = dtable.shape()[0], n = dtable.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Accumulate<T>* const dw = dtable.as<Accumulate<T>>();
    const T* const d = dout.as<T>();
    const int32_t* const token = tokens.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t begin = 0; begin < n; begin += kColumns) {
      const size_t end = std::min(n, begin + kColumns);
      for (size_t r = 0; r < rows; ++r) {
        const size_t word = index_in_slice(token[r], first, words);
        if (word == words) continue;
        map_in_thread([](auto sum, auto x) { return sum + x; }, end - begin, dw + word * n + begin,
                      dw + word * n + begin, d + r * n + begin);
      }
    }
  });
}

namespace {

// Returns the row of the table that belongs to token t.
size_t row_of(size_t t, const int32_t* positions) {
  return positions == nullptr ? t : static_cast<size_t>(positions[t]);
}

const int32_t* elements_or_null(const ConstTensorView& positions) {
  return positions.empty() ? nullptr : positions.as<int32_t>();
}

}  // namespace

void position_forward(Stream&, TensorView out, ConstTensorView in, ConstTensorView table,
                      ConstTensorView positions) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], n = out.shape()[2];
  const int32_t* const position = elements_or_null(positions);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T *const x = in.as<T>(), *const w = table.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < batch * tokens; ++r) {
      map_in_thread([](auto a, auto b) { return a + b; }, n, o + r * n, x + r * n,
                    w + row_of(r % tokens, position) * n);
    }
  });
}

void position_backward(Stream&, TensorView dtable, ConstTensorView dout,
                       ConstTensorView positions) {
  const size_t batch = dout.shape()[0], tokens = dout.shape()[1], n = dout.shape()[2];
  const int32_t* const position = elements_or_null(positions);
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const d = dout.as<T>();
    Accumulate<T>* const table = dtable.as<Accumulate<T>>();
#pragma omp parallel for schedule(static)
    for (size_t t = 0; t < tokens; ++t) {
      Accumulate<T>* const dw = table + row_of(t, position) * n;
      for (size_t b = 0; b < batch; ++b) {
        map_in_thread([](auto sum, auto x) { return sum + x; }, n, dw, dw,
                      d + (b * tokens + t) * n);
      }
    }
  });
}

}  // namespace ladder::cpu
