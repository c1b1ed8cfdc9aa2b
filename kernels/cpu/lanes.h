// Vectors of 64 bytes, and sums and maxima over them whose order is fixed by the element's index.
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
  static constexpr size_t kCount = 64 / sizeof(T);
  typedef T Vector __attribute__((vector_size(64)));

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
template <class T, class Term, class... Inputs>
inline T lane_sum(size_t n, Term term, const Inputs*... inputs) {
  using L = Lanes<T>;
  typename L::Vector lanes{};
  size_t i = 0;
  for (; i + L::kCount <= n; i += L::kCount) lanes += term(L::load(inputs + i)...);
  T total = L::sum(lanes);
  for (; i < n; ++i) total += term(inputs[i]...);
  return total;
}

// Largest of in[0 .. n). REQUIRES: n >= 1.
template <class T>
inline T lane_max(size_t n, const T* in) {
  using L = Lanes<T>;
  typename L::Vector lanes = typename L::Vector{} + std::numeric_limits<T>::lowest();
  size_t i = 0;
  for (; i + L::kCount <= n; i += L::kCount) {
    const typename L::Vector v = L::load(in + i);
    lanes = v > lanes ? v : lanes;
  }
  T largest = std::numeric_limits<T>::lowest();
  for (size_t l = 0; l < L::kCount; ++l) largest = std::max(largest, lanes[l]);
  for (; i < n; ++i) largest = std::max(largest, in[i]);
  return largest;
}

}  // namespace ladder::cpu
