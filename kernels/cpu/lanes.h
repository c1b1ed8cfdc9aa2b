// Sums and maxima by vectors of 32 bytes, in an order that depends only on the elements' indices.
//
// The compiler may not reorder floating-point additions, so in a plain loop each addition waits for
// the one before. Here lane l sums elements l, l + lanes, ..., and the lanes are added in a fixed
// tree. That is fast, and gives the same bits on every machine and for every number of threads.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/runtime/low_precision.h"

namespace ladder::cpu {

template <class T>
struct Lanes {
  static constexpr size_t kCount = 32 / sizeof(T);
  typedef T Vector __attribute__((vector_size(32)));
  typedef uint32_t Words __attribute__((vector_size(32)));
  typedef uint16_t Halves __attribute__((vector_size(16)));

  static Vector load(const T* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(T* to, const Vector& v) { std::memcpy(to, &v, sizeof v); }

  // These convert eight elements of bf16 or fp16 at once, as low_precision.h does one by one.
  static Vector load(const bfloat16* from) requires std::same_as<T, float> {
    Halves h;
    std::memcpy(&h, from, sizeof h);
    const Words words = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]};
    return reinterpret_cast<Vector>(words << 16);
  }
  static void store(bfloat16* to, const Vector& v) requires std::same_as<T, float> {
    const Words x = reinterpret_cast<Words>(v);
    const Words ordered = reinterpret_cast<Words>(v == v);  // all bits, or none for NaN
    const Words up = ((x >> 16 & 1) + 0x7FFF) & ordered, quiet = 0x400000 & ~ordered;
    store_bits(to, __builtin_convertvector(((x + up) | quiet) >> 16, Halves));
  }
  // Processors have instructions for fp16, and x86's have no name in the compiler's own vectors.
#ifdef __x86_64__
  static Vector load(const float16* from) requires std::same_as<T, float> {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(float16* to, const Vector& v) requires std::same_as<T, float> {
    store_bits(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  typedef __fp16 HalfFloats __attribute__((vector_size(16)));
  static Vector load(const float16* from) requires std::same_as<T, float> {
    HalfFloats h;
    std::memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, Vector);
  }
  static void store(float16* to, const Vector& v) requires std::same_as<T, float> {
    store_bits(to, __builtin_convertvector(v, HalfFloats));
  }
#endif

  template <class Bits>
  static void store_bits(void* to, const Bits& bits) {
    std::memcpy(to, &bits, sizeof bits);
  }

  // Returns the sum of the lanes. It adds the upper half to the lower half until one is left.
  static T sum(const Vector& v) {
    T lane[kCount];
    std::memcpy(lane, &v, sizeof lane);
    for (size_t half = kCount / 2; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    return lane[0];
  }
};

// Returns a * b + c, rounded once, for all lanes. The compiler makes one instruction of it.
template <class Vector>
inline Vector multiply_add(const Vector& a, const Vector& b, const Vector& c) {
  Vector result;
  for (size_t l = 0; l < sizeof(Vector) / sizeof(a[0]); ++l) result[l] = std::fma(a[l], b[l], c[l]);
  return result;
}

// Returns the sum over i < n of term(inputs[i]...). `term` is called with vectors, and with scalars
// for the last elements. There are four vectors of lanes, because one addition per cycle needs that
// many under way. Inputs may have any type that accumulates in T.
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
  for (; i < n; ++i) total += term(static_cast<T>(inputs[i])...);
  return total;
}

// Returns the largest of in[0 .. n). REQUIRES: n >= 1.
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
