// The exp of kernels/cpu/math.h, against the C++ library's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cpu/math.h"
#include "tests/catch.h"

namespace ladder::cpu {
namespace {

// The error in units of the last place of the right result, which a wider type has.
template <class T, class Wide>
double error_of(T x) {
  const Wide right = std::exp(Wide{x});
  const T nearest = static_cast<T>(right);
  const Wide ulp =
      Wide{std::nextafter(nearest, std::numeric_limits<T>::infinity())} - Wide{nearest};
  return static_cast<double>(std::abs(Wide{vector_exp(x)} - right) / ulp);
}

template <class T, class Wide>
void check_errors() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<T> any(Exp<T>::kLeast, Exp<T>::kMost), small(-1, 1);
  double worst = 0;
  for (int i = 0; i < 500'000; ++i) {
    worst = std::max({worst, error_of<T, Wide>(any(random)), error_of<T, Wide>(small(random))});
  }
  CHECK(worst < 1);
  CHECK(worst > 0.5);  // it is no exact function, so this test sees something

  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  CHECK(vector_exp(T{0}) == 1);
  CHECK(vector_exp(-kInfinity) == 0);
  CHECK(vector_exp(std::numeric_limits<T>::lowest()) == 0);
  CHECK(vector_exp(kInfinity) == kInfinity);
  CHECK(vector_exp(std::numeric_limits<T>::max()) == kInfinity);
  CHECK(std::isnan(vector_exp(std::numeric_limits<T>::quiet_NaN())));
}

TEST_CASE("exp is right to 1 ulp, 0 and infinite beyond its range, and keeps NaN") {
  check_errors<float, double>();
  check_errors<double, long double>();
}

TEST_CASE("exp of a vector has the bits of the scalar one") {
  using L = Lanes<float>;
  std::mt19937_64 random(2);
  std::uniform_real_distribution<float> any(-110, 100);
  for (int i = 0; i < 10'000; ++i) {
    float x[L::kCount], y[L::kCount];
    for (float& one : x) one = any(random);
    L::store(y, vector_exp(L::load(x)));
    for (size_t l = 0; l < L::kCount; ++l) REQUIRE(y[l] == vector_exp(x[l]));
  }
}

}  // namespace
}  // namespace ladder::cpu
