#include "kernels/attention_of_tile.h"

#include "kernels/cpu/attention_gradient.h"

namespace ladder::cpu {
namespace {

// Returns head h of sequence b: its queries in qkv (B, Tq, 3 C), its keys and values in kv
// (B, Tk, 2 C).
template <class T>
Head<T> head_of(const T* qkv, size_t queries, const T* kv, size_t keys, size_t hidden, size_t size,
                size_t b, size_t h, const ScoreTile& scores) {
  const T* const q = qkv + (b * queries + scores.first_query) * 3 * hidden + h * size;
  const T* const k = kv + b * keys * 2 * hidden + h * size;
  return {scores.num_queries, scores.num_keys, size, 3 * hidden, 2 * hidden, scores.causal, q, k,
          k + hidden};
}

}  // namespace

void attention_of_tile_forward(Stream&, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                               ConstTensorView kv, ScoreTile scores) {
  const size_t batch = out.shape()[0], queries = out.shape()[1], hidden = out.shape()[2];
  const size_t keys = kv.shape()[1], num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A *const o = out.as<A>(), *const l = logsumexp.as<A>();
    const T *const x = qkv.as<T>(), *const y = kv.as<T>();
    // In bf16 and fp16 a wide head is computed in slices (attention_tile.h).
    const size_t step = is_low_precision<T> ? kSlice : size;
    const size_t num_tiles = (scores.num_queries + kQueries - 1) / kQueries;
#pragma omp parallel
    for_tiles(scores.num_queries, kQueries, batch * num_heads, [&](size_t tile, size_t bh) {
      const size_t b = bh / num_heads, h = bh % num_heads;
      const auto head = head_of(x, queries, y, keys, hidden, size, b, h, scores);
      const size_t q0 = (num_tiles - 1 - tile) * kQueries, first = scores.first_query;
      A* const to = o + (b * queries + first + q0) * hidden + h * size;
      for (size_t d0 = 0; d0 < size; d0 += step) {
        forward_tile(head, q0, d0, std::min(step, size - d0), to + d0, hidden,
                     l + bh * queries + first);
      }
    });
  });
}

void attention_of_tile_backward(Stream&, TensorView dq, TensorView dkv, ConstTensorView row_dot,
                                ConstTensorView dout, ConstTensorView logsumexp,
                                ConstTensorView qkv, ConstTensorView kv, ScoreTile scores) {
  const size_t batch = dq.shape()[0], queries = dq.shape()[1], hidden = dq.shape()[2];
  const size_t keys = kv.shape()[1], num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A *const dx = dq.as<A>(), *const dy = dkv.as<A>();
    const T *const x = qkv.as<T>(), *const y = kv.as<T>(), *const d = dout.as<T>();
    const A *const l = logsumexp.as<A>(), *const dot = row_dot.as<A>();
#pragma omp parallel
    for_tiles(1, 1, batch * num_heads, [&](size_t, size_t bh) {
      const size_t b = bh / num_heads, h = bh % num_heads, first = scores.first_query;
      const size_t at_query = (b * queries + first) * hidden + h * size;
      const Gradient<T> gradient = {head_of(x, queries, y, keys, hidden, size, b, h, scores),
                                    d + at_query, hidden, l + bh * queries + first,
                                    dot + bh * queries + first};
      A* const dk = dy + b * keys * 2 * hidden + h * size;
      add_gradients(gradient, true, dx + at_query, hidden, dk, dk + hidden, 2 * hidden);
    });
  });
}

}  // namespace ladder::cpu
