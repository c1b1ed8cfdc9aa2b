// What the kernel tests share: comparison with a reference, finite differences. References compute
// with doubles, in the order the formula is written.
#pragma once

#include <omp.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "tests/kernels/arrays.h"

namespace ladder::testing {

// The relative error of `roundings` operations in a row on elements of `dtype`, each (1 + e) with
// |e| <= 2^-24 or 2^-53; 1 % more for their products. In fp64 the reference rounds as often as the
// kernel: twice.
inline double rounding_error(DType dtype, double roundings) {
  return 1.01 * roundings * (dtype == DType::fp64 ? 2 * 0x1p-53 : 0x1p-24);
}

// How far rounding moves a number of this size that is stored: half a last place of bf16 (8
// significant bits) or fp16 (11, and multiples of 2^-24). fp32 and fp64 results are stored as they
// were computed.
inline double storage_error(DType dtype, double size) {
  if (dtype == DType::bf16) return std::max(0x1p-8 * size, 0x1p-134);
  if (dtype == DType::fp16) return std::max(0x1p-11 * size, 0x1p-25);
  return 0;
}

// |got - expected| <= factor * size, element by element; NaN never passes.
inline void require_within(const Values& got, const Values& expected, double factor,
                           const Values& size) {
  REQUIRE(got.size() == expected.size());
  REQUIRE(got.size() == size.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - expected[i]) <= factor * size[i])) {
      FAIL(concat("element ", i, ": ", got[i], ", expected ", expected[i], " +- ",
                  factor * size[i]));
    }
  }
  SUCCEED();
}

// The same for results that were computed to within factor * size, then stored as `dtype`.
inline void require_within(DType dtype, const Values& got, const Values& expected, double factor,
                           const Values& size) {
  REQUIRE(expected.size() == size.size());
  Values bound(size);
  for (size_t i = 0; i < bound.size(); ++i) {
    bound[i] *= factor;
    bound[i] += storage_error(dtype, std::abs(expected[i]) + bound[i]);
  }
  require_within(got, expected, 1, bound);
}

inline void require_same_bits(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint64_t>(got[i]) != std::bit_cast<uint64_t>(expected[i])) {
      FAIL(concat("element ", i, ": ", got[i], " differs in its bits from ", expected[i]));
    }
  }
  SUCCEED();
}

// `run` gives the same bits with every number of CPU threads, and twice with each; on other devices
// twice.
inline void require_same_for_any_threads(const std::function<Values()>& run) {
  const Values expected = run();
  if (place().device != DeviceType::cpu) return require_same_bits(run(), expected);
  std::vector<int> counts = {1, 2, 3, 5};
#ifdef __SANITIZE_THREAD__
  counts = {1};  // the thread sanitizer does not know libgomp's barriers
#endif
  const int before = omp_get_max_threads();
  for (int threads : counts) {
    omp_set_num_threads(threads);
    require_same_bits(run(), expected);
    require_same_bits(run(), expected);
  }
  omp_set_num_threads(before);
}

// d f / d x[i] by central differences. The step h = 1e-5 is about the cube root of 2^-53, where the
// formula's error h^2 f'''/6 and the rounding 2^-53 |f| / h are both near 1e-10 for f, f''' of
// order ten: a hundred times below what require_gradient asks for.
inline Values numeric_gradient(const Values& x, const std::function<double(const Values&)>& f) {
  constexpr double kStep = 1e-5;
  Values gradient(x.size()), moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + kStep;
    const double above = f(moved);
    moved[i] = x[i] - kStep;
    gradient[i] = (above - f(moved)) / (2 * kStep);
    moved[i] = x[i];
  }
  return gradient;
}

inline double dot(const Values& a, const Values& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// `got` is the gradient to 1e-7 of its largest element, and that is not tiny.
inline void require_gradient(const Values& got, const Values& numeric) {
  double largest = 0;
  for (double value : numeric) largest = std::max(largest, std::abs(value));
  REQUIRE(largest > 1e-2);
  require_within(got, numeric, 1e-7 * largest, Values(got.size(), 1));
}

inline Values sum_of(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace ladder::testing
