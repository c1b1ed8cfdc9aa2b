// The tiles of attention on the CPU. A tile is a few queries against a few keys of one head: only
// their scores are in memory at a time. Read kernels/cpu/plain_attention.h first.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/map.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {

// Queries and keys of one head of one sequence. The vector of query i is at q + i * q_stride, those
// of key j at k + j * kv_stride and v + j * kv_stride.
template <class T>
struct Head {
  using A = Accumulate<T>;

  // Return vectors first, first + 1, ... as rows, or as columns. Those of q begin at element d0.
  Matrix<T> q_rows(size_t first, size_t d0 = 0) const {
    return {q + first * q_stride + d0, q_stride};
  }
  Matrix<T> kv_rows(const T* of, size_t first, bool transposed = false) const {
    return {of + first * kv_stride, kv_stride, transposed};
  }
  A scale() const { return A{1} / std::sqrt(static_cast<A>(size)); }
  // Returns the end of the keys that queries before `end` see.
  size_t end_of_keys(size_t end) const { return causal ? end : keys; }
  // Returns how many of n keys from k0 on a query sees. REQUIRES: it sees key k0.
  size_t visible(size_t query, size_t k0, size_t n) const {
    return causal ? std::min(n, query + 1 - k0) : n;
  }

  size_t queries, keys, size, q_stride, kv_stride;  // size: the elements of a vector
  bool causal;  // true: query i sees keys 0 to i; false: all keys
  const T *q, *k, *v;
};

// Keys from `valid` on are masked. Gives them the lowest score, whose exponential is 0, up to the
// next multiple of 64 bytes (or n), and returns that number of keys: loops up to there have whole
// vectors. exponentials() sets the rest to 0.
template <class T>
size_t mask_scores(T* scores, size_t valid, size_t n) {
  constexpr size_t kVector = 64 / sizeof(T);
  const size_t count = std::min(n, (valid + kVector - 1) / kVector * kVector);
  std::fill(scores + valid, scores + count, std::numeric_limits<T>::lowest());
  return count;
}

// p[j] = exp(scale * p[j] - shift) for j < count, and 0 for the masked keys from there to n.
template <class T>
void exponentials(T* p, size_t count, size_t n, T scale, T shift) {
#pragma omp simd
  for (size_t j = 0; j < count; ++j) p[j] = vector_exp(scale * p[j] - shift);
  std::fill(p + count, p + n, T{0});
}

// Computes the results of kQueries queries that begin at q0 (fewer at the end), over all keys that
// they see. Elements [d0, d0 + width) of the results go to `sums`, whose rows are sums_stride
// apart. For each tile of keys the maximum so far may grow; then what was summed before is
// multiplied by a correction.
template <class T, class A = Accumulate<T>>
void forward_tile(const Head<T>& head, size_t q0, size_t d0, size_t width, A* sums,
                  size_t sums_stride, A* logsumexp) {
  const size_t num_queries = std::min(kQueries, head.queries - q0);
  const size_t end = head.end_of_keys(q0 + num_queries);
  const A scale = head.scale();
  alignas(64) A scores[kQueries * kKeys];
  A maximum[kQueries], total[kQueries];
  std::fill_n(maximum, kQueries, std::numeric_limits<A>::lowest());
  for (size_t k0 = 0; k0 < end; k0 += kKeys) {
    const size_t n = std::min(kKeys, end - k0);
    product(num_queries, n, head.size, head.q_rows(q0), head.kv_rows(head.k, k0, true), false,
            scores, n);
    for (size_t i = 0; i < num_queries; ++i) {
      A* const row = scores + i * n;
      const size_t count = mask_scores(row, head.visible(q0 + i, k0, n), n);
      const A larger = std::max(maximum[i], scale * lane_max(count, row));
      exponentials(row, count, n, scale, larger);
      const A sum = lane_sum<A>(
          count, [](auto p) { return p; }, row);
      if (k0 == 0) {
        total[i] = sum;
      } else {
        const A correction = vector_exp(maximum[i] - larger);
        total[i] = total[i] * correction + sum;
        A* const o = sums + i * sums_stride;
        std::transform(o, o + width, o, [=](A x) { return x * correction; });
      }
      maximum[i] = larger;
    }
    product(num_queries, width, n, Matrix<A>{scores, n}, head.kv_rows(head.v + d0, k0), k0 > 0,
            sums, sums_stride);
  }
  for (size_t i = 0; i < num_queries; ++i) {
    A* const o = sums + i * sums_stride;
    const A inverse = A{1} / total[i];
    std::transform(o, o + width, o, [=](A x) { return x * inverse; });
    logsumexp[q0 + i] = maximum[i] + std::log(total[i]);
  }
}

}  // namespace ladder::cpu
