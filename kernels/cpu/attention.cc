#include "kernels/attention.h"

#include "kernels/cpu/attention_gradient.h"

namespace ladder::cpu {
namespace {

// Computes the results of one tile of queries and stores them in `out`.
template <class T, class A = Accumulate<T>>
void forward_queries(const Head<T>& head, size_t q0, T* out, size_t out_stride, A* logsumexp) {
  T* const rows = out + q0 * out_stride;
  if constexpr (is_low_precision<T>) {
    A sums[kQueries * kSlice];
    for (size_t d0 = 0; d0 < head.size; d0 += kSlice) {
      const size_t width = std::min(kSlice, head.size - d0);
      forward_tile(head, q0, d0, width, sums, kSlice, logsumexp);
      for (size_t i = 0; i < std::min(kQueries, head.queries - q0); ++i) {
        convert(rows + i * out_stride + d0, sums + i * kSlice, width);
      }
    }
  } else {
    forward_tile(head, q0, 0, head.size, rows, out_stride, logsumexp);
  }
}

// Returns head h of sequence b of a qkv (B, T, C + 2 K), where bh = b NH + h.
template <class T>
Head<T> head_of(const T* qkv, size_t bh, size_t tokens, const AttentionHeads& heads,
                AttentionMask mask) {
  const size_t b = bh / heads.num_heads, h = bh % heads.num_heads, stride = heads.qkv_columns();
  const T* const token = qkv + b * tokens * stride;
  const T* const k = token + heads.query_columns() + h / heads.group() * heads.size;
  const T *const q = token + h * heads.size, *const v = k + heads.key_columns();
  const bool causal = mask == AttentionMask::causal;
  return {tokens, tokens, heads.size, stride, stride, causal, q, k, v};
}

// What follows computes gradients in the calling thread. Query heads [first, end) share keys and
// values; `gradient` returns the Gradient of one of them. dqkv has the layout of qkv.

// Computes all gradients of these heads and of their keys and values.
template <class T, class Of>
void backward_group(const Of& gradient, size_t first, size_t end, const T* qkv, T* dqkv) {
  const Head<T> kv = gradient(first).head;
  T *const dk = dqkv + (kv.k - qkv), *const dv = dqkv + (kv.v - qkv);
  for (size_t t = 0; t < kv.keys; ++t) {
    std::fill_n(dk + t * kv.kv_stride, kv.size, T{0});
    std::fill_n(dv + t * kv.kv_stride, kv.size, T{0});
  }
  for (size_t h = first; h < end; ++h) {
    const Gradient<T> g = gradient(h);
    add_gradients(g, false, dqkv + (g.head.q - qkv), kv.q_stride, dk, dv, kv.kv_stride);
  }
}

// In bf16 and fp16 gradients are summed in fp32, in memory of their own, and rounded once. That
// memory holds the sums of some keys or of some queries. So keys and queries each have a pass,
// which computes the scores again. Early queries see no keys beyond the first tile of keys, so the
// pass over keys computes their gradients too.

// Returns the number of early queries: the first ones of a head.
size_t num_early(size_t tokens, AttentionMask mask) {
  if (mask == AttentionMask::causal) return std::min(tokens, kKeys);
  return tokens <= kKeys ? tokens : 0;
}

// Rounds sums to elements [d0, d0 + width) of dq, dk or dv of tokens [first, first + count).
template <class T>
void store_sums(const Head<T>& head, size_t first, size_t count, size_t d0, size_t width, T* to,
                float* sums) {
  for (size_t i = 0; i < count; ++i) {
    convert(to + (first + i) * head.q_stride + d0, sums + i * kSlice, width);
  }
}

// Computes dk and dv of one tile of keys, from all queries that see them, and dq of the early
// queries of each head.
template <class T, class Of>
void backward_keys(const Of& gradient, size_t first, size_t end, size_t k0, size_t early,
                   const T* qkv, T* dqkv) {
  const Head<T> kv = gradient(first).head;
  alignas(64) float p[kQueries * kKeys], ds[kQueries * kKeys];
  float dk[kKeys * kSlice], dv[kKeys * kSlice], dq[kQueries * kSlice];
  const size_t count = std::min(kKeys, kv.keys - k0);
  for (size_t d0 = 0; d0 < kv.size; d0 += kSlice) {
    const size_t width = std::min(kSlice, kv.size - d0);
    std::fill_n(dk, count * kSlice, 0.0F);
    std::fill_n(dv, count * kSlice, 0.0F);
    for (size_t h = first; h < end; ++h) {
      const Gradient<T> g = gradient(h);
      const Head<T>& head = g.head;
      for (size_t q0 = head.causal ? k0 : 0; q0 < head.queries; q0 += kQueries) {
        const size_t num_queries = std::min(kQueries, head.queries - q0);
        const size_t n = std::min(count, head.end_of_keys(q0 + num_queries) - k0);
        gradient_tile(g, q0, num_queries, k0, n, p, ds);
        product(n, width, num_queries, Matrix<float>{p, n, true}, g.dout_rows(q0, d0), true, dv,
                kSlice);
        product(n, width, num_queries, Matrix<float>{ds, n, true}, head.q_rows(q0, d0), true, dk,
                kSlice);
        if (q0 >= early) continue;
        product(num_queries, width, n, Matrix<float>{ds, n}, head.kv_rows(head.k + d0, k0), false,
                dq, kSlice);
        store_sums(head, q0, num_queries, d0, width, dqkv + (head.q - qkv), dq);
      }
    }
    store_sums(kv, k0, count, d0, width, dqkv + (kv.k - qkv), dk);
    store_sums(kv, k0, count, d0, width, dqkv + (kv.v - qkv), dv);
  }
}

// Computes dq of one tile of a head's queries, from all keys that they see. `to` is where dq of the
// head begins.
template <class T>
void backward_queries(const Gradient<T>& g, size_t q0, T* to) {
  const Head<T>& head = g.head;
  alignas(64) float p[kQueries * kKeys], ds[kQueries * kKeys];
  float dq[kQueries * kSlice];
  const size_t num_queries = std::min(kQueries, head.queries - q0);
  const size_t end = head.end_of_keys(q0 + num_queries);
  for (size_t d0 = 0; d0 < head.size; d0 += kSlice) {
    const size_t width = std::min(kSlice, head.size - d0);
    for (size_t k0 = 0; k0 < end; k0 += kKeys) {
      const size_t n = std::min(kKeys, end - k0);
      gradient_tile(g, q0, num_queries, k0, n, p, ds);
      product(num_queries, width, n, Matrix<float>{ds, n}, head.kv_rows(head.k + d0, k0), k0 > 0,
              dq, kSlice);
    }
    store_sums(head, q0, num_queries, d0, width, to, dq);
  }
}

}  // namespace

void attention_forward(Stream&, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                       AttentionMask mask) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], columns = out.shape()[2];
  const AttentionHeads heads = attention_heads(logsumexp, columns, qkv.shape()[2] - columns);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    Accumulate<T>* const l = logsumexp.as<Accumulate<T>>();
    const T* const x = qkv.as<T>();
    // With a causal mask the last tiles see the most keys, so they come first.
    const size_t num_tiles = (tokens + kQueries - 1) / kQueries;
#pragma omp parallel
    for_tiles(tokens, kQueries, batch * heads.num_heads, [&](size_t tile, size_t bh) {
      forward_queries(head_of(x, bh, tokens, heads, mask), (num_tiles - 1 - tile) * kQueries,
                      o + heads.at(bh, tokens), columns, l + bh * tokens);
    });
  });
}

void attention_backward(Stream&, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                        AttentionMask mask) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], columns = out.shape()[2];
  const AttentionHeads heads = attention_heads(logsumexp, columns, qkv.shape()[2] - columns);
  const size_t all_heads = batch * heads.num_heads, groups = batch * heads.num_kv_heads;
  const size_t early = num_early(tokens, mask);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = dqkv.as<T>();
    A* const dot = row_dot.as<A>();
    const T *const x = qkv.as<T>(), *const d = dout.as<T>(), *const o = out.as<T>();
    const A* const l = logsumexp.as<A>();
    const auto gradient = [&](size_t bh) {
      return Gradient<T>{head_of(x, bh, tokens, heads, mask), d + heads.at(bh, tokens), columns,
                         l + bh * tokens, dot + bh * tokens};
    };
    const auto fill_row_dots = [&](size_t first, size_t end, size_t bh) {
      const size_t at = heads.at(bh, tokens);
      fill_row_dot(first, end, dot + bh * tokens, d + at, o + at, columns, heads.size);
    };
#pragma omp parallel
    if constexpr (is_low_precision<T>) {
      for_tiles(tokens, kQueries, all_heads, [&](size_t tile, size_t bh) {
        fill_row_dots(tile * kQueries, std::min(tokens, (tile + 1) * kQueries), bh);
      });
      for_tiles(tokens, kKeys, groups, [&](size_t tile, size_t i) {
        backward_keys(gradient, i * heads.group(), (i + 1) * heads.group(), tile * kKeys, early, x,
                      dx);
      });
      for_tiles(tokens - early, kQueries, all_heads, [&](size_t tile, size_t bh) {
        const Gradient<T> g = gradient(bh);
        backward_queries(g, early + tile * kQueries, dx + (g.head.q - x));
      });
    } else {
      for_tiles(1, 1, groups, [&](size_t, size_t i) {
        const size_t first = i * heads.group(), end = first + heads.group();
        for (size_t bh = first; bh < end; ++bh) fill_row_dots(0, tokens, bh);
        backward_group(gradient, first, end, x, dx);
      });
    }
  });
}

}  // namespace ladder::cpu
