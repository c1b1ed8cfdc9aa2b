// Sums and maxima by vectors, in an order that depends only on the elements' indices.
//
// The compiler may not reorder floating-point additions, so in a plain loop each addition waits for
// the one before. Here lane l sums elements l, l + lanes, ..., and the lanes are added in a fixed
// tree. There are as many lanes in four registers of 64 bytes, on a CPU without these in eight of
// 32. That is fast, and gives the same bits on every machine and for every number of threads.
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

// The bytes of a register.
#ifdef __AVX512F__
inline constexpr size_t kRegister = 64;
#else
inline constexpr size_t kRegister = 32;
#endif

// A register full of numbers.
template <class T>
struct Lanes {
  static constexpr size_t kCount = kRegister / sizeof(T);
  typedef T Vector __attribute__((vector_size(kRegister)));
  typedef uint32_t Words __attribute__((vector_size(kRegister)));
  typedef uint16_t Halves __attribute__((vector_size(kRegister / 2)));

  static Vector load(const T* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(T* to, const Vector& v) { std::memcpy(to, &v, sizeof v); }

  // These convert elements of bf16 or fp16 at once, as low_precision.h does one by one.
  static Vector load(const bfloat16* from) requires std::same_as<T, float> {
    Halves h;
    std::memcpy(&h, from, sizeof h);
    return reinterpret_cast<Vector>(__builtin_convertvector(h, Words) << 16);
  }
  static void store(bfloat16* to, const Vector& v) requires std::same_as<T, float> {
    const Words x = reinterpret_cast<Words>(v);
    const Words ordered = reinterpret_cast<Words>(v == v);  // all bits, or none for NaN
    const Words up = ((x >> 16 & 1) + 0x7FFF) & ordered, quiet = 0x400000 & ~ordered;
    store_bits(to, __builtin_convertvector(((x + up) | quiet) >> 16, Halves));
  }
  // Processors have instructions for fp16, and x86's have no name in the compiler's own vectors.
#ifdef __AVX512F__
  static Vector load(const float16* from) requires std::same_as<T, float> {
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store(float16* to, const Vector& v) requires std::same_as<T, float> {
    store_bits(to, _mm512_maskz_cvtps_ph(0xFFFF, v, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__x86_64__)
  static Vector load(const float16* from) requires std::same_as<T, float> {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(float16* to, const Vector& v) requires std::same_as<T, float> {
    store_bits(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  typedef __fp16 HalfFloats __attribute__((vector_size(kRegister / 2)));
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
};

// Returns a * b + c, rounded once, of numbers or in all lanes. The compiler makes one instruction
// of it.
inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
template <class Vector>
inline Vector multiply_add(const Vector& a, const Vector& b, const Vector& c) {
  Vector result;
  for (size_t l = 0; l < sizeof(Vector) / sizeof(a[0]); ++l) result[l] = std::fma(a[l], b[l], c[l]);
  return result;
}

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
