// Vectors of numbers, a register each. lane_sum.h has sums of them.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/runtime/low_precision.h"

namespace ladder::cpu {

// The bytes of a register; on aarch64, of two.
#ifdef __AVX512F__
inline constexpr size_t kRegister = 64;
#else
inline constexpr size_t kRegister = 32;
#endif

// The vectors of numbers that fill a register, and how they are loaded and stored.
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
  // g++ 12 cannot convert vectors of fp16 on x86; these instructions do. (Without a mask it warns
  // that a vector in its own header has no value.)
#ifdef __AVX512F__
  static Vector load(const float16* from) requires std::same_as<T, float> {
    return _mm512_maskz_cvtph_ps(0xFFFF,
                                 _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
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

}  // namespace ladder::cpu
