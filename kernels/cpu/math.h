// exp without branches: the compiler computes a loop over it in vectors of any width, and the bits
// are the same for a scalar and for an element of a vector, on every CPU. The error is below 1 ulp.
// x below kLeast gives 0, and above kMost infinity; both lie a little within the range of normal
// results.
//
// With n = x / log(2), rounded to an integer, and r = x - n log(2), exp(x) = 2^n exp(r), where |r|
// is at most log(2) / 2. exp(r) is its Taylor series, up to the last term that changes the result;
// adding n to its exponent multiplies it by 2^n.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/lanes.h"

namespace ladder::cpu {

// What depends on the type. kLog2 and kRest are together log(2).
template <class T>
struct Exp;
template <>
struct Exp<float> {
  using Bits = uint32_t;
  static constexpr unsigned kMantissa = 23;            // bits after the point
  static constexpr size_t kTerms = 8;                  // 1 to r^7 / 7!
  static constexpr float kLeast = -87, kMost = 88.7F;  // beyond, exp(x) is 0 or infinite
  static constexpr float kLog2 = 0x1.62e43p-1F, kRest = -0x1.05c61p-29F;
};
template <>
struct Exp<double> {
  using Bits = uint64_t;
  static constexpr unsigned kMantissa = 52;
  static constexpr size_t kTerms = 14;
  static constexpr double kLeast = -708, kMost = 709.7;
  static constexpr double kLog2 = 0x1.62e42fefa39efp-1, kRest = 0x1.abc9e3b39803fp-56;
};

// Returns 1 / i!.
template <class T>
constexpr T inverse_factorial(size_t i) {
  double factorial = 1;
  for (size_t k = 2; k <= i; ++k) factorial *= static_cast<double>(k);
  return static_cast<T>(1 / factorial);
}

// Returns the sum over i >= first of r^(i - first) / i!, innermost term first.
template <class T, size_t first, class V>
inline V series(const V& r) {
  constexpr V kTerm = V{} + inverse_factorial<T>(first);
  if constexpr (first + 1 == Exp<T>::kTerms) {
    return kTerm;
  } else {
    return multiply_add(series<T, first + 1>(r), r, kTerm);
  }
}

// V is float, double or a vector of floats, and Bits unsigned integers of the same size.
template <class T, class V, class Bits>
inline V exp_of(V x) {
  using E = Exp<T>;
  constexpr V kZero = {};
  // Numbers as large as 1.5 * 2^23 (2^52 in fp64) are 1 apart. So adding it rounds x / log(2) to
  // the integer n, which then stands in the last bits.
  constexpr T kLarge = static_cast<T>(uint64_t{3} << (E::kMantissa - 1));
  const V shifted = multiply_add(x, kZero + T{1} / E::kLog2, kZero + kLarge);
  const V n = shifted - kLarge;
  const V r = multiply_add(n, kZero - E::kRest, multiply_add(n, kZero - E::kLog2, x));
  const V result = std::bit_cast<V>(std::bit_cast<Bits>(series<T, 0>(r)) +
                                    (std::bit_cast<Bits>(shifted) << E::kMantissa));
  const V some = x < E::kLeast ? kZero : result;  // NaN stays
  return x > E::kMost ? kZero + std::numeric_limits<T>::infinity() : some;
}

inline float vector_exp(float x) { return exp_of<float, float, uint32_t>(x); }
inline double vector_exp(double x) { return exp_of<double, double, uint64_t>(x); }
inline Lanes<float>::Vector vector_exp(const Lanes<float>::Vector& x) {
  return exp_of<float, Lanes<float>::Vector, Lanes<float>::Words>(x);
}

}  // namespace ladder::cpu
