#include "kernels/attention_merge.h"

#include "kernels/cpu/attention_gradient.h"

namespace ladder::cpu {

void attention_merge(Stream&, TensorView out, TensorView logsumexp, ConstTensorView partial_out,
                     ConstTensorView partial_logsumexp, size_t first, size_t count) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = Accumulate<decltype(zero)>;
    T *const o = out.as<T>(), *const l = logsumexp.as<T>();
    const T *const p = partial_out.as<T>(), *const m = partial_logsumexp.as<T>();
#pragma omp parallel for collapse(2) schedule(static)
    for (size_t bh = 0; bh < batch * num_heads; ++bh) {
      for (size_t t = first; t < first + count; ++t) {
        const size_t row = bh * tokens + t;
        // The larger of the two is taken off both, so that no exponential exceeds 1.
        const T largest = std::max(l[row], m[row]);
        const T ours = std::exp(l[row] - largest), theirs = std::exp(m[row] - largest);
        const T inverse = T{1} / (ours + theirs);
        const size_t at = (bh / num_heads * tokens + t) * hidden + bh % num_heads * size;
        for (size_t d = 0; d < size; ++d) {
          o[at + d] = (ours * o[at + d] + theirs * p[at + d]) * inverse;
        }
        l[row] = largest + std::log(ours + theirs);
      }
    }
  });
}

void attention_row_dot(Stream&, TensorView row_dot, ConstTensorView dout, ConstTensorView out) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = row_dot.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* const dot = row_dot.as<Accumulate<T>>();
    const T *const d = dout.as<T>(), *const o = out.as<T>();
#pragma omp parallel
    for_tiles(tokens, kQueries, batch * num_heads, [&](size_t tile, size_t bh) {
      const size_t at = bh / num_heads * tokens * hidden + bh % num_heads * size;
      fill_row_dot(tile * kQueries, std::min(tokens, (tile + 1) * kQueries), dot + bh * tokens,
                   d + at, o + at, hidden, size);
    });
  });
}

}  // namespace ladder::cpu
