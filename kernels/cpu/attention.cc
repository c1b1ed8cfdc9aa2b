#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {
namespace {

// Scores exist for one tile of queries x keys at a time. A key block starts at a multiple of
// kKeys, which kQueries divides: the first key of a block is never after the tile's first query.
constexpr size_t kQueries = 64, kKeys = 256;

// One head of one sequence: token t's vectors lie at q + t * stride and so on.
template <class T>
struct Head {
  Head(const T* qkv, size_t b, size_t h, size_t tokens_, size_t num_heads, size_t size_)
      : tokens(tokens_), size(size_), stride(3 * num_heads * size_) {
    q = qkv + b * tokens * stride + h * size;
    k = q + num_heads * size;
    v = k + num_heads * size;
    scale = T{1} / std::sqrt(static_cast<T>(size));
  }
  Matrix<T> rows(const T* of, size_t first, bool transposed = false) const {
    return {of + first * stride, stride, transposed};
  }

  size_t tokens, size, stride;
  const T *q, *k, *v;
  T scale;
};

// p[j] = exp(scale * s[j] - shift) for j < valid, 0 up to n: the mask. p may be s.
template <class T>
void exponentials(T* p, const T* s, size_t valid, size_t n, T scale, T shift) {
#pragma omp simd
  for (size_t j = 0; j < valid; ++j) p[j] = vector_exp(scale * s[j] - shift);
  std::fill(p + valid, p + n, T{0});
}

// One tile of queries [q0, q0 + num_queries) against all keys before them.
template <class T>
void forward_tile(const Head<T>& head, size_t q0, T* out, size_t out_stride, T* logsumexp) {
  const size_t num_queries = std::min(kQueries, head.tokens - q0), end = q0 + num_queries;
  alignas(64) T scores[kQueries * kKeys];
  T maximum[kQueries], total[kQueries];
  std::fill_n(maximum, kQueries, std::numeric_limits<T>::lowest());
  std::fill_n(total, kQueries, T{0});
  for (size_t k0 = 0; k0 < end; k0 += kKeys) {
    const size_t n = std::min(kKeys, end - k0);
    gemm(num_queries, n, head.size, head.rows(head.q, q0), head.rows(head.k, k0, true), false,
         scores, n);
    for (size_t i = 0; i < num_queries; ++i) {
      T* const row = scores + i * n;
      const size_t valid = std::min(n, q0 + i + 1 - k0);
      const T larger = std::max(maximum[i], head.scale * lane_max(valid, row));
      exponentials(row, row, valid, n, head.scale, larger);
      const T correction = std::exp(maximum[i] - larger);
      total[i] = total[i] * correction + lane_sum<T>(
                                             valid, [](auto p) { return p; }, row);
      maximum[i] = larger;
      T* const o = out + (q0 + i) * out_stride;
      if (k0 > 0) std::transform(o, o + head.size, o, [=](T x) { return x * correction; });
    }
    gemm(num_queries, head.size, n, Matrix<T>{scores, n}, head.rows(head.v, k0), k0 > 0,
         out + q0 * out_stride, out_stride);
  }
  for (size_t i = 0; i < num_queries; ++i) {
    T* const o = out + (q0 + i) * out_stride;
    const T inverse = T{1} / total[i];
    std::transform(o, o + head.size, o, [=](T x) { return x * inverse; });
    logsumexp[q0 + i] = maximum[i] + std::log(total[i]);
  }
}

// All of one head's backward: dk and dv collect over queries, so one thread has the whole head.
// dqkv points at the head's dq of token 0 and has the layout of qkv.
template <class T>
void backward_head(const Head<T>& head, T* dqkv, T* row_dot, const T* dout, const T* out,
                   size_t out_stride, const T* logsumexp) {
  alignas(64) T p[kQueries * kKeys], ds[kQueries * kKeys];
  T *const dq = dqkv, *const dk = dqkv + (head.k - head.q), *const dv = dqkv + (head.v - head.q);
  for (size_t t = 0; t < head.tokens; ++t) {
    std::fill_n(dk + t * head.stride, head.size, T{0});
    std::fill_n(dv + t * head.stride, head.size, T{0});
    row_dot[t] = lane_sum<T>(
        head.size, [](auto a, auto b) { return a * b; }, dout + t * out_stride,
        out + t * out_stride);
  }
  for (size_t q0 = 0; q0 < head.tokens; q0 += kQueries) {
    const size_t num_queries = std::min(kQueries, head.tokens - q0), end = q0 + num_queries;
    const Matrix<T> d{dout + q0 * out_stride, out_stride};
    for (size_t k0 = 0; k0 < end; k0 += kKeys) {
      const size_t n = std::min(kKeys, end - k0);
      gemm(num_queries, n, head.size, head.rows(head.q, q0), head.rows(head.k, k0, true), false, p,
           n);
      gemm(num_queries, n, head.size, d, head.rows(head.v, k0, true), false, ds, n);
      for (size_t i = 0; i < num_queries; ++i) {
        T *const p_row = p + i * n, *const ds_row = ds + i * n;
        const T dot = row_dot[q0 + i];
        exponentials(p_row, p_row, std::min(n, q0 + i + 1 - k0), n, head.scale, logsumexp[q0 + i]);
        for (size_t j = 0; j < n; ++j) ds_row[j] = p_row[j] * (ds_row[j] - dot) * head.scale;
      }
      gemm(n, head.size, num_queries, Matrix<T>{p, n, true}, d, true, dv + k0 * head.stride,
           head.stride);
      gemm(num_queries, head.size, n, Matrix<T>{ds, n}, head.rows(head.k, k0), k0 > 0,
           dq + q0 * head.stride, head.stride);
      gemm(n, head.size, num_queries, Matrix<T>{ds, n, true}, head.rows(head.q, q0), true,
           dk + k0 * head.stride, head.stride);
    }
  }
}

}  // namespace

void attention_forward(TensorView out, TensorView logsumexp, ConstTensorView qkv) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T *const o = out.as<T>(), *const l = logsumexp.as<T>();
    const T* const x = qkv.as<T>();
    // The last tiles have the most keys: handed out one at a time, longest first. Which thread
    // takes a tile changes nothing in it.
    const size_t num_tiles = (tokens + kQueries - 1) / kQueries;
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      for (size_t bh = 0; bh < batch * num_heads; ++bh) {
        const size_t b = bh / num_heads, h = bh % num_heads;
        forward_tile(Head<T>(x, b, h, tokens, num_heads, size), (num_tiles - 1 - tile) * kQueries,
                     o + b * tokens * hidden + h * size, hidden, l + bh * tokens);
      }
    }
  });
}

void attention_backward(TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv) {
  const size_t batch = out.shape()[0], tokens = out.shape()[1], hidden = out.shape()[2];
  const size_t num_heads = logsumexp.shape()[1], size = hidden / num_heads;
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T *const dx = dqkv.as<T>(), *const dot = row_dot.as<T>();
    const T *const x = qkv.as<T>(), *const d = dout.as<T>(), *const o = out.as<T>();
    const T* const l = logsumexp.as<T>();
#pragma omp parallel for schedule(dynamic)
    for (size_t bh = 0; bh < batch * num_heads; ++bh) {
      const size_t b = bh / num_heads, h = bh % num_heads;
      const size_t offset = b * tokens * hidden + h * size;
      const Head<T> head(x, b, h, tokens, num_heads, size);
      backward_head(head, dx + (head.q - x), dot + bh * tokens, d + offset, o + offset, hidden,
                    l + bh * tokens);
    }
  });
}

}  // namespace ladder::cpu
