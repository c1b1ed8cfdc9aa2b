// The 16-bit floating-point types. They are only for storing: an element is converted to fp32,
// which is exact, and a result is rounded when it is stored, to nearest, ties to even. NaN stays
// NaN.
//
// CUDA kernels convert with one instruction of the GPU instead of up to a dozen. The results are
// the same, except that every NaN becomes the same NaN. We write these instructions ourselves
// because the functions of cuda_fp16.h are not constexpr, and do not exist without CUDA.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace ladder {

// Rounds x to fp32 such that a second rounding, to fewer bits, gives what rounding x itself would
// give. That is the next fp32 number towards zero, with its last bit set unless it equals x.
constexpr float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (nearest == x || nearest != nearest) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (x > 0 ? nearest > x : nearest < x) --bits;
  return std::bit_cast<float>(bits | 1);
}

// bf16 is the upper half of fp32: 8 exponent bits and 7 fraction bits. It has fp32's range and 8
// significant bits.
class bfloat16 {
 public:
  bfloat16() = default;
  constexpr explicit bfloat16(float x) : bits_(rounded(x)) {}
  constexpr explicit bfloat16(double x) : bfloat16(round_to_odd(x)) {}
  constexpr operator float() const {
    return std::bit_cast<float>(uint32_t{bits_} << 16);
  }  // NOLINT

  static constexpr bfloat16 from_bits(uint16_t bits) {
    bfloat16 x{};
    x.bits_ = bits;
    return x;
  }
  constexpr uint16_t bits() const { return bits_; }

 private:
  // Adds half of the last place that remains, minus one bit if a tie must be rounded down.
  static constexpr uint16_t rounded(float value) {
#ifdef __CUDA_ARCH__
    if (!std::is_constant_evaluated()) {
      uint16_t bits;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
      return bits;
    }
#endif
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const bool is_nan = (x & 0x7FFFFFFF) > 0x7F800000;
    return static_cast<uint16_t>((is_nan ? x | 0x400000 : x + 0x7FFF + (x >> 16 & 1)) >> 16);
  }

  uint16_t bits_;
};

// fp16 is IEEE's binary16: 5 exponent bits and 10 fraction bits. Its largest number is 65,504; what
// is nearer to 65,536 becomes infinite. Its smallest normal number is 2^-14; below that it has the
// multiples of 2^-24.
class float16 {
 public:
  float16() = default;
  constexpr explicit float16(float x) : bits_(rounded(x)) {}
  constexpr explicit float16(double x) : float16(round_to_odd(x)) {}
  constexpr operator float() const { return widened(bits_); }  // NOLINT

  static constexpr float16 from_bits(uint16_t bits) {
    float16 x{};
    x.bits_ = bits;
    return x;
  }
  constexpr uint16_t bits() const { return bits_; }

 private:
  static constexpr uint32_t kBiases = (127 - 15) << 23;  // the difference of the exponents' biases
  static constexpr uint32_t kInfinity = 0x7F800000;      // the bits of fp32's infinity

  static constexpr uint16_t rounded(float value) {
#ifdef __CUDA_ARCH__
    if (!std::is_constant_evaluated()) {
      uint16_t bits;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
      return bits;
    }
#endif
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t size = x & 0x7FFFFFFF;
    uint32_t bits = 0;
    if (size > kInfinity) {
      bits = 0x7E00 | (size >> 13 & 0x3FF);
    } else if (size >= 0x477FF000) {  // 65,520, halfway between 65,504 and 65,536
      bits = 0x7C00;
    } else if (size >= kBiases + (1 << 23)) {
      bits = (size - kBiases + 0xFFF + (size >> 13 & 1)) >> 13;
    } else {  // the last bit of 1/2 is 2^-24: the addition rounds
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3F000000;
    }
    return static_cast<uint16_t>(bits | (x >> 16 & 0x8000));
  }
  static constexpr float widened(uint16_t bits) {
#ifdef __CUDA_ARCH__
    if (!std::is_constant_evaluated()) {
      float value;
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
      return value;
    }
#endif
    const uint32_t size = (bits & 0x7FFFU) << 13, sign = (bits & 0x8000U) << 16;
    // The product is exact. It also turns fp16's subnormal numbers into normal ones of fp32.
    const uint32_t x = std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p112F);
    return std::bit_cast<float>((size >= (31U << 23) ? x | kInfinity : x) | sign);
  }

  uint16_t bits_;
};

}  // namespace ladder
