#include "kernels/attention.h"

#include "kernels/cpu/attention_tile.h"

namespace ladder::cpu {
namespace {

// Computes the results of one tile of queries and stores them in `out`.
template <class T, class A = Accumulate<T>>
void forward_queries(const Head<T>& head, size_t q0, T* out, size_t out_stride, A* logsumexp) {
  T* const rows = out + q0 * out_stride;
  if constexpr (is_low_precision<T>) {
    A sums[kQueries * kPart];
    for (size_t d0 = 0; d0 < head.size; d0 += kPart) {
      const size_t width = std::min(kPart, head.size - d0);
      forward_tile(head, q0, d0, width, sums, kPart, logsumexp);
      for (size_t i = 0; i < std::min(kQueries, head.tokens - q0); ++i) {
        convert(rows + i * out_stride + d0, sums + i * kPart, width);
      }
    }
  } else {
    forward_tile(head, q0, 0, head.size, rows, out_stride, logsumexp);
  }
}

// What a head's backward pass reads besides q, k and v.
template <class T>
struct Gradient {
  using A = Accumulate<T>;

  Matrix<T> dout_rows(size_t first, size_t d0 = 0) const {
    return {dout + first * out_stride + d0, out_stride};
  }

  Head<T> head;
  const T *dout, *out;
  size_t out_stride;
  const A* logsumexp;
  A* row_dot;  // workspace

  // row_dot[t] = sum over the head of dout * out, for tokens [first, end).
  void fill_row_dot(size_t first, size_t end) const {
    for (size_t t = first; t < end; ++t) {
      row_dot[t] = lane_sum<A>(
          head.size, [](auto a, auto b) { return a * b; }, dout + t * out_stride,
          out + t * out_stride);
    }
  }
};

// Computes p (num_queries, n), the probabilities of one tile, and ds, the gradient of its scores.
template <class T, class A = Accumulate<T>>
void gradient_tile(const Gradient<T>& g, size_t q0, size_t num_queries, size_t k0, size_t n, A* p,
                   A* ds) {
  const Head<T>& head = g.head;
  product(num_queries, n, head.size, head.rows(head.q, q0), head.rows(head.k, k0, true), false, p,
          n);
  product(num_queries, n, head.size, g.dout_rows(q0), head.rows(head.v, k0, true), false, ds, n);
  for (size_t i = 0; i < num_queries; ++i) {
    A *const p_row = p + i * n, *const ds_row = ds + i * n;
    const A dot = g.row_dot[q0 + i];
    const size_t valid = std::min(n, q0 + i + 1 - k0);
    exponentials(p_row, p_row, valid, n, head.scale, g.logsumexp[q0 + i]);
    for (size_t j = 0; j < n; ++j) ds_row[j] = p_row[j] * (ds_row[j] - dot) * head.scale;
  }
}

// Computes all gradients of one head. dk and dv are sums over queries, so one thread has the whole
// head. dqkv points to the head's dq of token 0 and has the layout of qkv.
template <class T>
void backward_head(const Gradient<T>& g, T* dqkv) {
  const Head<T>& head = g.head;
  alignas(64) T p[kQueries * kKeys], ds[kQueries * kKeys];
  T *const dq = dqkv, *const dk = dqkv + (head.k - head.q), *const dv = dqkv + (head.v - head.q);
  for (size_t t = 0; t < head.tokens; ++t) {
    std::fill_n(dk + t * head.stride, head.size, T{0});
    std::fill_n(dv + t * head.stride, head.size, T{0});
  }
  g.fill_row_dot(0, head.tokens);
  for (size_t q0 = 0; q0 < head.tokens; q0 += kQueries) {
    const size_t num_queries = std::min(kQueries, head.tokens - q0), end = q0 + num_queries;
    for (size_t k0 = 0; k0 < end; k0 += kKeys) {
      const size_t n = std::min(kKeys, end - k0);
      gradient_tile(g, q0, num_queries, k0, n, p, ds);
      gemm(n, head.size, num_queries, Matrix<T>{p, n, true}, g.dout_rows(q0), true,
           dv + k0 * head.stride, head.stride);
      gemm(num_queries, head.size, n, Matrix<T>{ds, n}, head.rows(head.k, k0), k0 > 0,
           dq + q0 * head.stride, head.stride);
      gemm(n, head.size, num_queries, Matrix<T>{ds, n, true}, head.rows(head.q, q0), true,
           dk + k0 * head.stride, head.stride);
    }
  }
}

// In bf16 and fp16 gradients are summed in fp32, in memory of their own, and rounded once. That
// memory holds the sums of some keys or of some queries. So keys and queries each have a pass,
// which computes the scores again. The first kKeys queries see no keys beyond the first tile of
// keys, so the pass over keys computes their gradients too.

// Rounds sums to elements [d0, d0 + width) of dq, dk or dv of tokens [first, first + count).
template <class T>
void store_sums(const Head<T>& head, size_t first, size_t count, size_t d0, size_t width, T* to,
                float* sums) {
  for (size_t i = 0; i < count; ++i) {
    convert(to + (first + i) * head.stride + d0, sums + i * kPart, width);
  }
}

// Computes dk and dv of one tile of keys, from all queries that see them, and dq of the first kKeys
// queries.
template <class T>
void backward_keys(const Gradient<T>& g, size_t k0, T* dqkv) {
  const Head<T>& head = g.head;
  alignas(64) float p[kQueries * kKeys], ds[kQueries * kKeys];
  float dk[kKeys * kPart], dv[kKeys * kPart], dq[kQueries * kPart];
  const size_t count = std::min(kKeys, head.tokens - k0);
  for (size_t d0 = 0; d0 < head.size; d0 += kPart) {
    const size_t width = std::min(kPart, head.size - d0);
    std::fill_n(dk, count * kPart, 0.0F);
    std::fill_n(dv, count * kPart, 0.0F);
    for (size_t q0 = k0; q0 < head.tokens; q0 += kQueries) {
      const size_t num_queries = std::min(kQueries, head.tokens - q0);
      const size_t n = std::min(count, q0 + num_queries - k0);
      gradient_tile(g, q0, num_queries, k0, n, p, ds);
      product(n, width, num_queries, Matrix<float>{p, n, true}, g.dout_rows(q0, d0), true, dv,
              kPart);
      product(n, width, num_queries, Matrix<float>{ds, n, true}, head.rows(head.q + d0, q0), true,
              dk, kPart);
      if (q0 >= kKeys) continue;
      product(num_queries, width, n, Matrix<float>{ds, n}, head.rows(head.k + d0, k0), false, dq,
              kPart);
      store_sums(head, q0, num_queries, d0, width, dqkv, dq);
    }
    store_sums(head, k0, count, d0, width, dqkv + (head.k - head.q), dk);
    store_sums(head, k0, count, d0, width, dqkv + (head.v - head.q), dv);
  }
}

// Computes dq of one tile of queries, from all keys that they see.
template <class T>
void backward_queries(const Gradient<T>& g, size_t q0, T* dqkv) {
  const Head<T>& head = g.head;
  alignas(64) float p[kQueries * kKeys], ds[kQueries * kKeys];
  float dq[kQueries * kPart];
  const size_t num_queries = std::min(kQueries, head.tokens - q0), end = q0 + num_queries;
  for (size_t d0 = 0; d0 < head.size; d0 += kPart) {
    const size_t width = std::min(kPart, head.size - d0);
    for (size_t k0 = 0; k0 < end; k0 += kKeys) {
      const size_t n = std::min(kKeys, end - k0);
      gradient_tile(g, q0, num_queries, k0, n, p, ds);
      product(num_queries, width, n, Matrix<float>{ds, n}, head.rows(head.k + d0, k0), k0 > 0, dq,
              kPart);
    }
    store_sums(head, q0, num_queries, d0, width, dqkv, dq);
  }
}

// Calls body(tile, head) for every tile of `size` tokens of each of num_heads heads. The threads of
// the surrounding parallel region take one tile at a time; which thread takes a tile does not
// change its result.
template <class Body>
void for_tiles(size_t tokens, size_t size, size_t num_heads, Body body) {
  const size_t num_tiles = (tokens + size - 1) / size;
#pragma omp for collapse(2) schedule(dynamic)
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    for (size_t head = 0; head < num_heads; ++head) body(tile, head);
  }
}

}  // namespace

void attention_forward(Stream&, TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    Accumulate<T>* const l = logsumexp.as<Accumulate<T>>();
    const T* const x = qkv.as<T>();
    // The last tiles see the most keys, so they come first.
    const size_t num_tiles = (tokens + kQueries - 1) / kQueries;
#pragma omp parallel
    for_tiles(tokens, kQueries, batch * num_heads, [&](size_t tile, size_t bh) {
      const size_t b = bh / num_heads, h = bh % num_heads;
      forward_queries(Head<T>(x, b, h, tokens, num_heads, size), (num_tiles - 1 - tile) * kQueries,
                      o + b * tokens * hidden + h * size, hidden, l + bh * tokens);
    });
  });
}

void attention_backward(Stream&, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = dqkv.as<T>();
    A* const dot = row_dot.as<A>();
    const T *const x = qkv.as<T>(), *const d = dout.as<T>(), *const o = out.as<T>();
    const A* const l = logsumexp.as<A>();
    const auto gradient = [&](size_t bh) {
      const size_t b = bh / num_heads, h = bh % num_heads;
      const size_t offset = b * tokens * hidden + h * size;
      return Gradient<T>{Head<T>(x, b, h, tokens, num_heads, size),
                         d + offset,
                         o + offset,
                         hidden,
                         l + bh * tokens,
                         dot + bh * tokens};
    };
    const auto dq = [&](const Gradient<T>& g) { return dx + (g.head.q - x); };
#pragma omp parallel
    if constexpr (is_low_precision<T>) {
      for_tiles(tokens, kQueries, batch * num_heads, [&](size_t tile, size_t bh) {
        gradient(bh).fill_row_dot(tile * kQueries, std::min(tokens, (tile + 1) * kQueries));
      });
      for_tiles(tokens, kKeys, batch * num_heads, [&](size_t tile, size_t bh) {
        const Gradient<T> g = gradient(bh);
        backward_keys(g, tile * kKeys, dq(g));
      });
      const size_t others = tokens - std::min(tokens, kKeys);
      for_tiles(others, kQueries, batch * num_heads, [&](size_t tile, size_t bh) {
        const Gradient<T> g = gradient(bh);
        backward_queries(g, kKeys + tile * kQueries, dq(g));
      });
    } else {
      for_tiles(1, 1, batch * num_heads, [&](size_t, size_t bh) {
        const Gradient<T> g = gradient(bh);
        backward_head(g, dq(g));
      });
    }
  });
}

}  // namespace ladder::cpu
