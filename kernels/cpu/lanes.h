// Sums and maxima over vectors of 32 bytes, whose order is fixed by the element's index.
//
// The compiler may not reorder floating-point additions, so a plain summing loop runs at one
// addition per latency. Here lane l sums elements l, l + lanes, ... and the lanes are added in a
// fixed tree: fast, and the same bits on every machine and for every number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

namespace ladder::cpu {

template <class T>
struct Lanes {
  static constexpr size_t kCount = 32 / sizeof(T);
  typedef T Vector __attribute__((vector_size(32)));

  static Vector load(const T* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  // The sum of the lanes, halves onto halves.
  static T sum(const Vector& v) {
    T lane[kCount];
    std::memcpy(lane, &v, sizeof lane);
    for (size_t half = kCount / 2; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    return lane[0];
  }
};

// Sum over i < n of term(inputs[i]...). `term` is called with vectors and, for the rest, scalars.
// Four vectors of lanes: one addition per cycle needs that many under way.
template <class T, class Term, class... Inputs>
inline T lane_sum(size_t n, Term term, const Inputs*... inputs) {
  using L = Lanes<T>;
  typename L::Vector a{}, b{}, c{}, d{};
  size_t i = 0;
  for (; i + 4 * L::kCount <= n; i += 4 * L::kCount) {
    a += term(L::load(inputs + i)...);
    b += term(L::load(inputs + i + L::kCount)...);
    c += term(L::load(inputs + i + 2 * L::kCount)...);
    d += term(L::load(inputs + i + 3 * L::kCount)...);
  }
  for (; i + L::kCount <= n; i += L::kCount) a += term(L::load(inputs + i)...);
  T total = L::sum((a + b) + (c + d));
  for (; i < n; ++i) total += term(inputs[i]...);
  return total;
}

// Largest of in[0 .. n). REQUIRES: n >= 1.
template <class T>
inline T lane_max(size_t n, const T* in) {
  using L = Lanes<T>;
  using Vector = typename L::Vector;
  const auto larger = [](const Vector& x, const Vector& y) { return x > y ? x : y; };
  Vector a = Vector{} + std::numeric_limits<T>::lowest(), b = a;
  size_t i = 0;
  for (; i + 2 * L::kCount <= n; i += 2 * L::kCount) {
    a = larger(L::load(in + i), a);
    b = larger(L::load(in + i + L::kCount), b);
  }
  a = larger(a, b);
  T largest = std::numeric_limits<T>::lowest();
  for (size_t l = 0; l < L::kCount; ++l) largest = std::max(largest, a[l]);
  for (; i < n; ++i) largest = std::max(largest, in[i]);
  return largest;
}

}  // namespace ladder::cpu
