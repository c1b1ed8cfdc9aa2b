// Sums and maxima by vectors, in an order that depends only on the elements' indices.
//
// The compiler may not reorder floating-point additions, so in a plain loop each addition waits for
// the one before. Here a sum has 256 bytes of lanes, 64 in fp32: four registers of 64 bytes, or
// eight of 32. Element i of each whole group of 64 goes to lane i. What is left goes to lanes 0 to
// 15, in groups of 16. Then the lanes are added in a fixed tree, and the last n % 16 elements to
// their sum. (A maximum has half as many lanes.) That is fast, and gives the same bits on every
// machine and for every number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/cpu/lanes.h"

namespace ladder::cpu {

struct Plus {
  static constexpr auto begin(auto zero) { return zero; }
  auto operator()(const auto& a, const auto& b) const { return a + b; }
};
struct Larger {
  template <class T>
  static constexpr T begin(T) {
    return std::numeric_limits<T>::lowest();
  }
  auto operator()(const auto& a, const auto& b) const { return b > a ? b : a; }
};

// What Combine has made of some numbers so far, in kBytes / sizeof(T) lanes.
template <class Combine, class T, size_t kBytes>
class Partial {
 public:
  Partial() {
#pragma GCC unroll 8
    for (Vector& some : lanes_) some = Combine::begin(T{0}) + Vector{};
  }

  // Takes `bytes` bytes of numbers into lanes 0, 1, ...; load(i) returns a vector of those from
  // number i on.
  template <size_t bytes = kBytes, class Load>
  void take(Load load) {
#pragma GCC unroll 8
    for (size_t i = 0; i < bytes / kRegister; ++i)
      lanes_[i] = combine_(lanes_[i], load(i * kCount));
  }
  // Combines the upper half of the lanes with the lower half until one is left, and returns that.
  T total() {
#pragma GCC unroll 8
    for (size_t half = kRegisters / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (size_t i = 0; i < half; ++i) lanes_[i] = combine_(lanes_[i], lanes_[i + half]);
    }
    T lane[kCount];
    std::memcpy(lane, lanes_, sizeof lane);
    for (size_t half = kCount / 2; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lane[l] = combine_(lane[l], lane[l + half]);
    }
    return lane[0];
  }

 private:
  using Vector = typename Lanes<T>::Vector;
  static constexpr size_t kCount = Lanes<T>::kCount, kRegisters = kBytes / kRegister;
  static constexpr Combine combine_ = {};

  Vector lanes_[kRegisters];
};

// Returns the sum over i < n of term(inputs[i]...). `term` is called with vectors, and with scalars
// for the last elements. One addition per cycle needs four registers under way. Inputs may have any
// type that accumulates in T.
template <class T, class Term, class... Inputs>
inline T lane_sum(size_t n, Term term, const Inputs*... inputs) {
  constexpr size_t kAll = 256 / sizeof(T), kSome = 64 / sizeof(T);
  Partial<Plus, T, 256> sums;
  size_t i = 0;
  const auto terms = [&](size_t at) { return term(Lanes<T>::load(inputs + i + at)...); };
  for (; i + kAll <= n; i += kAll) sums.take(terms);
  for (; i + kSome <= n; i += kSome) sums.template take<64>(terms);
  T total = sums.total();
  for (; i < n; ++i) total += term(static_cast<T>(inputs[i])...);
  return total;
}

// Returns the largest of in[0 .. n). REQUIRES: n >= 1.
template <class T>
inline T lane_max(size_t n, const T* in) {
  constexpr size_t kAll = 128 / sizeof(T);
  Partial<Larger, T, 128> found;
  size_t i = 0;
  const auto load = [&](size_t at) { return Lanes<T>::load(in + i + at); };
  for (; i + kAll <= n; i += kAll) found.take(load);
  T largest = found.total();
  for (; i < n; ++i) largest = std::max(largest, in[i]);
  return largest;
}

}  // namespace ladder::cpu
