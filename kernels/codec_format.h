// The codes of single elements, for every device: numbers in 8 bits, and the scale of a block.
#pragma once

#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/codec.h"
#include "kernels/runtime/low_precision.h"
#include "kernels/runtime/random.h"

namespace ladder {

// An unsigned integer with the bits of T. Without the sign bit it grows with |x|, and infinity and
// NaN are above all numbers: so the maximum of these integers finds both the largest |x| and any
// overflow.
template <class T>
using BitsOf = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;

template <class T>
constexpr BitsOf<T> magnitude_bits(T x) {
  return std::bit_cast<BitsOf<T>>(x) & (~BitsOf<T>{0} >> 1);
}

inline constexpr uint32_t kNanBits = 0x7FC00000;

// Returns the bits of `scale` in fp32, or those of NaN if it is not a finite number there.
template <class T>
constexpr uint32_t finite_or_nan(T scale) {
  const bool fits = scale <= static_cast<T>(std::numeric_limits<float>::max());
  return fits ? std::bit_cast<uint32_t>(static_cast<float>(scale)) : kNanBits;
}

// Returns the bits of a block's scale. `largest` is the maximum of its elements' magnitude_bits().
template <class Form, class T>
constexpr uint32_t scale_bits(BitsOf<T> largest) {
  const uint32_t bits = finite_or_nan(std::bit_cast<T>(largest) / static_cast<T>(Form::kLargest));
  const bool is_normal = bits >= 0x00800000;  // otherwise 1 / scale might be infinite
  return is_normal ? bits : 0;
}

// Returns y rounded down, or up with a probability of y's fraction.
template <class T>
constexpr int round_by_chance(T y, uint32_t random) {
  const int truncated = static_cast<int>(y);
  const int below = truncated - (y < static_cast<T>(truncated));
  const T fraction = y - static_cast<T>(below);
  return below + (static_cast<T>(random >> 8) * T{0x1p-24} < fraction);
}

// The formats with 8 bits. nearest() and stochastic() encode y, with |y| <= kLargest but for a
// rounding error; value() decodes. The codes of NaN blocks are 0, which NaN as a scale makes NaN.
struct Int8Format {
  static constexpr float kLargest = 127;

  // Adding 1.5 * 2^23 (or 2^52) leaves no room for a fraction, so the addition rounds; the low byte
  // of the sum is then the whole number.
  template <class T>
  static constexpr uint8_t nearest(T y) {
    constexpr T kRounder = std::is_same_v<T, float> ? T{0x1.8p23} : T{0x1.8p52};
    return static_cast<uint8_t>(std::bit_cast<BitsOf<T>>(y + kRounder));
  }
  template <class T>
  static constexpr uint8_t stochastic(T y, uint32_t random) {
    const int code = round_by_chance(y, random);
    return static_cast<uint8_t>(code > 127 ? 127 : code < -127 ? -127 : code);
  }
  static constexpr float value(uint8_t code) { return static_cast<int8_t>(code); }
};

// Floating-point numbers of 8 bits: a sign, the exponent, kFraction bits of a fraction. They are
// made as fp16 is in low_precision.h.
template <unsigned kFraction, unsigned kBias, unsigned kLargestCode>
struct Fp8Format {
  static constexpr unsigned kCut = 23 - kFraction;  // fraction bits of fp32 that are lost
  static constexpr uint32_t kBiases = (127 - kBias) << 23;

  static constexpr float value(uint8_t code) {
    // The product is exact. It also turns subnormal numbers into normal ones of fp32.
    const float size =
        std::bit_cast<float>((code & 0x7FU) << kCut) * std::bit_cast<float>((254 - kBias) << 23);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | (code & 0x80U) << 24);
  }
  static constexpr float kLargest = value(kLargestCode);

  static constexpr uint8_t nearest(float y) {
    const uint32_t x = std::bit_cast<uint32_t>(y), size = x & 0x7FFFFFFF;
    const uint32_t half = (1U << (kCut - 1)) - 1 + (size >> kCut & 1);
    // Below the normal numbers all steps are equal: this number has them as its last bit.
    constexpr float kRounder = std::bit_cast<float>((127 - kBias + kCut + 1) << 23);
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + kRounder) -
                           std::bit_cast<uint32_t>(kRounder);
    const uint32_t normal = (size - kBiases + half) >> kCut;
    return with_sign(size >= kBiases + (1 << 23) ? normal : small, x);
  }
  static constexpr uint8_t nearest(double y) { return nearest(round_to_odd(y)); }

  template <class T>
  static constexpr uint8_t stochastic(T y, uint32_t random) {
    const uint32_t x = std::bit_cast<uint32_t>(static_cast<float>(y)), size = x & 0x7FFFFFFF;
    // Adds a random number to the bits that are then cut off.
    const uint32_t normal = (size - kBiases + (random >> (32 - kCut))) >> kCut;
    const float steps =
        std::bit_cast<float>(size) * std::bit_cast<float>((127 + kBias + kFraction - 1) << 23);
    const bool is_normal = size >= kBiases + (1 << 23);
    const int small = is_normal ? 0 : round_by_chance(steps, random);
    return with_sign(is_normal ? normal : static_cast<uint32_t>(small), x);
  }

 private:
  static constexpr uint8_t with_sign(uint32_t code, uint32_t x) {
    const uint32_t kept = code > kLargestCode ? kLargestCode : code;
    return static_cast<uint8_t>(kept | (x >> 24 & 0x80));
  }
};
using E4M3Format = Fp8Format<3, 7, 0x7E>;   // 0x7F is NaN
using E5M2Format = Fp8Format<2, 15, 0x7B>;  // 0x7C is infinity
static_assert(E4M3Format::kLargest == 448 && E5M2Format::kLargest == 57344);

// Returns random number `first + i` of a call.
constexpr uint32_t random_for(const Rounding& rounding, size_t i) {
  const uint64_t index = rounding.first + i;
  return philox(rounding.key, index / 4, rounding.stream)[index % 4];
}

// Calls function(format) with the type of a format with 8 bits.
template <class Function>
decltype(auto) dispatch_8_bits(Format format, Function&& function) {
  if (format == Format::fp8_e4m3) return function(E4M3Format{});
  if (format == Format::fp8_e5m2) return function(E5M2Format{});
  return function(Int8Format{});
}

// Calls function(format) with the type of a format with 16 bits.
template <class Function>
decltype(auto) dispatch_16_bits(Format format, Function&& function) {
  if (format == Format::fp16) return function(float16{});
  return function(bfloat16{});
}

}  // namespace ladder
