// The gradients of attention on the CPU, tile by tile. Read plain_attention_backward() in
// kernels/cpu/plain_attention.cc first, then attention_tile.h. For one head, with
// p = exp(scale * q k^T - logsumexp), 0 for keys that a query does not see:
//   ds = scale * p * (dout v^T - row_dot)
//   dv = p^T dout,  dk = ds^T q,  dq = ds k
// p and ds (queries, keys) never exist as a whole, only a tile of each at a time.
#pragma once

#include "kernels/cpu/attention_tile.h"

namespace ladder::cpu {

// The inputs from which the gradients of one head of one sequence are computed. It owns nothing.
template <class T>
struct Gradient {
  using A = Accumulate<T>;

  // Returns elements d0, d0 + 1, ... of dout of queries first, first + 1, ..., a row for each.
  Matrix<T> dout_rows(size_t first, size_t d0 = 0) const {
    return {dout + first * out_stride + d0, out_stride};
  }

  Head<T> head;        // q, k and v
  const T* dout;       // the gradient of the output: that of query i is at dout + i * out_stride
  size_t out_stride;   // in elements: C
  const A* logsumexp;  // (queries), from forward
  const A* row_dot;    // (queries): sum over the head of dout * out (fill_row_dot)
};

// Sets row_dot[t] to the sum over a head of dout * out, for tokens [first, end). It is the mean of
// dp in plain_attention_backward(), but needs no probabilities. `dout` and `out` point to the
// head's vectors (head_size) of token 0; those of the next token are `stride` elements on.
template <class T, class A = Accumulate<T>>
void fill_row_dot(size_t first, size_t end, A* row_dot, const T* dout, const T* out, size_t stride,
                  size_t head_size) {
  for (size_t t = first; t < end; ++t) {
    row_dot[t] = lane_sum<A>(
        head_size, [](auto a, auto b) { return a * b; }, dout + t * stride, out + t * stride);
  }
}

// Computes one tile of p and ds, both (num_queries, n): num_queries queries from q0 on against n
// keys from k0 on. REQUIRES: at most kQueries queries and kKeys keys; all of the queries see key
// k0.
template <class T, class A = Accumulate<T>>
void gradient_tile(const Gradient<T>& g, size_t q0, size_t num_queries, size_t k0, size_t n, A* p,
                   A* ds) {
  const Head<T>& head = g.head;
  const A scale = head.scale();
  product(num_queries, n, head.size, head.q_rows(q0), head.kv_rows(head.k, k0, true), false, p, n);
  product(num_queries, n, head.size, g.dout_rows(q0), head.kv_rows(head.v, k0, true), false, ds, n);
  for (size_t i = 0; i < num_queries; ++i) {
    A *const p_row = p + i * n, *const ds_row = ds + i * n;
    const A dot = g.row_dot[q0 + i];
    const size_t count = mask_scores(p_row, head.visible(q0 + i, k0, n), n);
    exponentials(p_row, count, n, scale, g.logsumexp[q0 + i]);
    for (size_t j = 0; j < n; ++j) ds_row[j] = p_row[j] * (ds_row[j] - dot) * scale;
  }
}

// Computes dq, dk and dv of one whole head in the calling thread: dk and dv are sums over queries,
// so no two threads share a head. Adds to dk and dv. Sets dq, or adds to it with `accumulate`. The
// three point to the head's vectors of the first query or key; strides are in elements.
template <class T, class A = Accumulate<T>>
void add_gradients(const Gradient<T>& g, bool accumulate, A* dq, size_t dq_stride, A* dk, A* dv,
                   size_t dkv_stride) {
  const Head<T>& head = g.head;
  alignas(64) A p[kQueries * kKeys], ds[kQueries * kKeys];
  const size_t step = is_low_precision<T> ? kSlice : head.size;
  for (size_t q0 = 0; q0 < head.queries; q0 += kQueries) {
    const size_t num_queries = std::min(kQueries, head.queries - q0);
    const size_t end = head.end_of_keys(q0 + num_queries);
    for (size_t k0 = 0; k0 < end; k0 += kKeys) {
      const size_t n = std::min(kKeys, end - k0);
      gradient_tile(g, q0, num_queries, k0, n, p, ds);
      for (size_t d0 = 0; d0 < head.size; d0 += step) {
        const size_t width = std::min(step, head.size - d0);
        product(n, width, num_queries, Matrix<A>{p, n, true}, g.dout_rows(q0, d0), true,
                dv + k0 * dkv_stride + d0, dkv_stride);
        product(num_queries, width, n, Matrix<A>{ds, n}, head.kv_rows(head.k + d0, k0),
                accumulate || k0 > 0, dq + q0 * dq_stride + d0, dq_stride);
        product(n, width, num_queries, Matrix<A>{ds, n, true}, head.q_rows(q0, d0), true,
                dk + k0 * dkv_stride + d0, dkv_stride);
      }
    }
  }
}

// Calls body(tile, head) for every tile of `size` tokens of each of num_heads heads; the last tile
// of a head may have fewer. The threads of the surrounding parallel region take one tile at a time.
// Which thread takes a tile does not change its result. All threads wait at the end.
template <class Body>
void for_tiles(size_t tokens, size_t size, size_t num_heads, Body body) {
  const size_t num_tiles = (tokens + size - 1) / size;
#pragma omp for collapse(2) schedule(dynamic)
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    for (size_t head = 0; head < num_heads; ++head) body(tile, head);
  }
}

}  // namespace ladder::cpu
