#include "kernels/runtime/random.h"

#include <cmath>
#include <set>
#include <string>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("philox gives the published known answers") {
  // Random123's kat_vectors for philox4x32-10; the least significant word comes first.
  using Words = std::array<uint32_t, 4>;
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(random_word(0, 0, 0) == 0xe169c58d6627e8d5);
}

TEST_CASE("random_below stays below and reaches every number") {
  CHECK(random_below(10, 0) == 0);
  CHECK(random_below(10, ~uint64_t{0}) == 9);
  CHECK(random_below(1, ~uint64_t{0}) == 0);
  CHECK(random_below(~uint64_t{0}, ~uint64_t{0}) == ~uint64_t{0} - 1);
  // 70,000 draws of 7: each count is binomial, mean 10,000, deviation sqrt(70,000 * 6/49) = 93.
  int counts[7] = {};
  for (uint64_t i = 0; i < 70000; ++i) ++counts[random_below(7, random_word(1, i, 0))];
  for (int count : counts) CHECK(std::abs(count - 10000) < 5 * 93);
}

TEST_CASE("random_key depends on seed and name") {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "ba", "wte.weight", "wpe.weight"}) {
      keys.insert(random_key(seed, name));
    }
  }
  CHECK(keys.size() == 700);
  CHECK(random_key(1, "wte.weight") == random_key(1, std::string("wte.") + "weight"));
  static_assert(random_key(1, "a") != random_key(2, "a"));
}

TEST_CASE("normal integers lie within their symmetric bounds and have a normal's moments") {
  constexpr int kNumbers = 1 << 20;
  double moments[5] = {};  // sums of powers of value / deviation
  for (int i = 0; i < kNumbers; ++i) {
    const int32_t value = random_normal_integer(42, static_cast<uint64_t>(i));
    REQUIRE(std::abs(value) <= 262140);
    double power = 1;
    for (double& moment : moments) {
      moment += power / kNumbers;
      power *= value / kNormalDeviation;
    }
  }
  // Five standard errors each. A power z^k over n numbers has the standard error
  // sqrt(E z^2k - (E z^k)^2) / sqrt(n); E z^2, z^4, z^6, z^8 are at most a normal's 1, 3, 15, 105.
  // E z^4 of a sum of eight uniform numbers is 3 - 6/5/8 = 2.85 (the normal number's is 3).
  const double root = std::sqrt(kNumbers);
  CHECK(std::abs(moments[1]) < 5 * 1 / root);
  CHECK(std::abs(moments[2] - 1) < 5 * std::sqrt(3.0 - 1) / root);
  CHECK(std::abs(moments[3]) < 5 * std::sqrt(15.0) / root);
  CHECK(std::abs(moments[4] - 2.85) < 5 * std::sqrt(105 - 2.85 * 2.85) / root);
}

TEST_CASE("kNormalDeviation is that of eight uniform 16-bit numbers") {
  // The variance of a uniform integer in [0, 65535] is (65536^2 - 1) / 12.
  CHECK(kNormalDeviation == std::sqrt(8 * (0x1p32 - 1) / 12));
}

TEST_CASE("normal integers of neighbouring indices and keys are unrelated") {
  constexpr int kNumbers = 1 << 18;
  double next_index = 0, next_key = 0;
  for (uint64_t i = 0; i < kNumbers; ++i) {
    const double value = random_normal_integer(7, i) / kNormalDeviation;
    next_index += value * random_normal_integer(7, i + 1) / kNormalDeviation / kNumbers;
    next_key += value * random_normal_integer(8, i) / kNormalDeviation / kNumbers;
  }
  // A product of two independent numbers has variance 1: five standard errors of the mean.
  CHECK(std::abs(next_index) < 5 / std::sqrt(kNumbers));
  CHECK(std::abs(next_key) < 5 / std::sqrt(kNumbers));
}

}  // namespace
}  // namespace ladder
