#include "kernels/runtime/low_precision.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace ladder {
namespace {

// What makes the two formats: bits of the exponent, and of the fraction below the point.
template <class Low>
constexpr int kExponentBits = 8;
template <>
constexpr int kExponentBits<float16> = 5;
template <class Low>
constexpr int kFractionBits = 15 - kExponentBits<Low>;

// The number, by IEEE's definition; what would be infinite is the number that would follow.
template <class Low>
double value_of(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> kFractionBits<Low>) & ((1 << kExponentBits<Low>)-1);
  const double fraction = std::ldexp(bits & ((1U << kFractionBits<Low>)-1), -kFractionBits<Low>);
  const int bias = (1 << (kExponentBits<Low> - 1)) - 1;
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <class Low>
constexpr uint32_t kInfinity = ((1U << kExponentBits<Low>)-1) << kFractionBits<Low>;

TEMPLATE_TEST_CASE("all values are widened as IEEE says, and come back", "", bfloat16, float16) {
  for (uint32_t bits = 0; bits < (1U << 16); ++bits) {
    const auto low = TestType::from_bits(static_cast<uint16_t>(bits));
    const float wide = low;
    const TestType back(wide), back_of_double(static_cast<double>(wide));
    const uint32_t size = bits & 0x7FFF;
    bool good = false;
    if (size > kInfinity<TestType>) {
      good = std::isnan(wide) && std::isnan(static_cast<float>(back)) &&
             std::isnan(static_cast<float>(back_of_double));
    } else {
      const bool as_defined =
          size == kInfinity<TestType>
              ? std::isinf(wide) && std::signbit(wide) == (bits >= 0x8000)
              : wide == value_of<TestType>(bits) && std::signbit(wide) == (bits >= 0x8000);
      good = as_defined && back.bits() == bits && back_of_double.bits() == bits;
    }
    if (!good) FAIL("bits " << bits << " became " << wide << " and " << back.bits());
  }
}

TEMPLATE_TEST_CASE("rounding is to nearest, ties to even, up to infinity", "", bfloat16, float16) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  for (uint32_t bits = 0; bits < kInfinity<TestType>; ++bits) {
    // Halfway to the next number: exact in fp32.
    const double middle = (value_of<TestType>(bits) + value_of<TestType>(bits + 1)) / 2;
    const float at = static_cast<float>(middle);
    const uint32_t even = bits + bits % 2;
    for (uint32_t sign : {0U, 0x8000U}) {
      const auto is = [sign](auto x, uint32_t expected) {
        return TestType(sign == 0 ? x : -x).bits() == (expected | sign);
      };
      const bool good = is(at, even) && is(std::nextafter(at, 0.0F), bits) &&
                        is(std::nextafter(at, kFar), bits + 1) && is(middle, even) &&
                        is(std::nextafter(middle, 0.0), bits) &&
                        is(std::nextafter(middle, 1e300), bits + 1);
      if (!good) FAIL("around " << middle << " with sign " << sign);
    }
  }
}

TEMPLATE_TEST_CASE("what lies beyond the largest number is infinite, what is tiny zero", "",
                   bfloat16, float16) {
  for (double large : {1e39, 1e300, std::numeric_limits<double>::infinity()}) {
    CHECK(TestType(large).bits() == kInfinity<TestType>);
    CHECK(TestType(-large).bits() == (kInfinity<TestType> | 0x8000));
  }
  CHECK(TestType(std::numeric_limits<float>::infinity()).bits() == kInfinity<TestType>);
  for (double tiny : {0.0, 1e-320, 1e-50}) {
    CHECK(TestType(tiny).bits() == 0);
    CHECK(TestType(-tiny).bits() == 0x8000);
  }
}

TEMPLATE_TEST_CASE("NaN stays NaN, whatever its bits", "", bfloat16, float16) {
  for (uint32_t sign : {0U, 0x80000000U}) {
    for (uint32_t payload : {1U, 0x1000U, 0x8000U, 0x3FFFFFU, 0x400000U, 0x7FFFFFU}) {
      const TestType low(std::bit_cast<float>(sign | 0x7F800000 | payload));
      CHECK(std::isnan(static_cast<float>(low)));
      CHECK(low.bits() >> 15 == sign >> 31);
    }
  }
  CHECK(std::isnan(static_cast<float>(TestType(std::nan("")))));
}

}  // namespace
}  // namespace ladder
