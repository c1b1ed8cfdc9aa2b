#include "kernels/attention_of_tile.h"

#include "kernels/cpu/attention_gradient.h"

namespace ladder::cpu {
namespace {

// Returns head h of sequence b, where bh = b NH + h: its queries in qkv (B, Tq, C + 2 K), its keys
// and values in kv (B, Tk, 2 K).
template <class T>
Head<T> head_of(const T* qkv, size_t queries, const T* kv, size_t keys, const AttentionHeads& heads,
                size_t bh, const ScoreTile& scores) {
  const size_t b = bh / heads.num_heads, h = bh % heads.num_heads;
  const size_t q_stride = heads.qkv_columns(), kv_stride = 2 * heads.key_columns();
  const T* const q = qkv + (b * queries + scores.first_query) * q_stride + h * heads.size;
  const T* const k = kv + b * keys * kv_stride + h / heads.group() * heads.size;
  const T* const v = k + heads.key_columns();
  return {
      scores.num_queries, scores.num_keys, heads.size, q_stride, kv_stride, scores.causal, q, k, v};
}

}  // namespace

void attention_of_tile_forward(Stream&, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                               ConstTensorView kv, ScoreTile scores) {
  const size_t batch = out.shape()[0], queries = out.shape()[1], columns = out.shape()[2];
  const size_t keys = kv.shape()[1], first = scores.first_query;
  const AttentionHeads heads = attention_heads(logsumexp, columns, kv.shape()[2]);
  dispatch_float(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A *const o = out.as<A>(), *const l = logsumexp.as<A>();
    const T *const x = qkv.as<T>(), *const y = kv.as<T>();
    // In bf16 and fp16 a wide head is computed in slices (attention_tile.h).
    const size_t size = heads.size, step = is_low_precision<T> ? kSlice : size;
    const size_t num_tiles = (scores.num_queries + kQueries - 1) / kQueries;
#pragma omp parallel
    for_tiles(scores.num_queries, kQueries, batch * heads.num_heads, [&](size_t tile, size_t bh) {
      const auto head = head_of(x, queries, y, keys, heads, bh, scores);
      const size_t q0 = (num_tiles - 1 - tile) * kQueries;
      A* const to = o + heads.at(bh, queries) + (first + q0) * columns;
      for (size_t d0 = 0; d0 < size; d0 += step) {
        forward_tile(head, q0, d0, std::min(step, size - d0), to + d0, columns,
                     l + bh * queries + first);
      }
    });
  });
}

void attention_of_tile_backward(Stream&, TensorView dq, TensorView dkv, ConstTensorView row_dot,
                                ConstTensorView dout, ConstTensorView logsumexp,
                                ConstTensorView qkv, ConstTensorView kv, ScoreTile scores) {
  const size_t batch = dq.shape()[0], queries = dq.shape()[1], columns = dq.shape()[2];
  const size_t keys = kv.shape()[1], kv_columns = kv.shape()[2], first = scores.first_query;
  const AttentionHeads heads = attention_heads(logsumexp, columns, kv_columns);
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    A *const dx = dq.as<A>(), *const dy = dkv.as<A>();
    const T *const x = qkv.as<T>(), *const y = kv.as<T>(), *const d = dout.as<T>();
    const A *const l = logsumexp.as<A>(), *const dot = row_dot.as<A>();
#pragma omp parallel
    for_tiles(1, 1, batch * heads.num_kv_heads, [&](size_t, size_t i) {
      for (size_t bh = i * heads.group(); bh < (i + 1) * heads.group(); ++bh) {
        const size_t at = heads.at(bh, queries) + first * columns, row = bh * queries + first;
        const Gradient<T> gradient = {head_of(x, queries, y, keys, heads, bh, scores), d + at,
                                      columns, l + row, dot + row};
        A* const dk = dy + (gradient.head.k - y);
        add_gradients(gradient, true, dx + at, columns, dk, dk + heads.key_columns(), kv_columns);
      }
    });
  });
}

}  // namespace ladder::cpu
