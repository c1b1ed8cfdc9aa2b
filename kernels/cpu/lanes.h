// Sums and maxima by vectors of 32 bytes, in an order that depends only on the elements' indices.
//
// The compiler may not reorder floating-point additions, so in a plain loop each addition waits for
// the one before. Here lane l sums elements l, l + lanes, ..., and the lanes are added in a fixed
// tree. That is fast, and gives the same bits on every machine and for every number of threads.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/runtime/low_precision.h"

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
  static void store(T* to, const Vector& v) { std::memcpy(to, &v, sizeof v); }

  // These convert eight elements of bf16 or fp16 at once, as low_precision.h does one by one.
  static Vector load(const bfloat16* from) requires std::same_as<T, float> {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static Vector load(const float16* from) requires std::same_as<T, float> {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(bfloat16* to, const Vector& v) requires std::same_as<T, float> {
    const __m256i x = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i bits =
        _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, _mm256_castps_si256(is_nan)), 16);
    store_bits(to,
               _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
  }
  static void store(float16* to, const Vector& v) requires std::same_as<T, float> {
    store_bits(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static void store_bits(void* to, __m128i bits) {
    _mm_storeu_si128(static_cast<__m128i*>(to), bits);
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
