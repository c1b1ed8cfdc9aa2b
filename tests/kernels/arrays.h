// What the kernel tests put into kernels: arrays with guards, random numbers.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/runtime/random.h"
#include "kernels/runtime/stream.h"

namespace ladder::testing {

// Elements of any dtype, held exactly.
using Values = std::vector<double>;

inline constexpr DType kFloats[] = {DType::fp32, DType::fp64};
inline constexpr size_t kOddSizes[] = {1, 17, 63, 65};

inline Memory& memory() {
  static Memory arena(DeviceType::cpu, "device", 0);
  return arena;
}

inline Stream& stream() {
  static Stream stream(DeviceType::cpu);
  return stream;
}

// The nearest number of `dtype`. One addition, multiplication, division or square root in double,
// then rounded, is that operation in fp32: 53 bits are more than twice 24.
// Not inlined: g++ 12 -O3 turns two neighbouring conversions to float and back into none.
[[gnu::noinline]] inline double rounded(DType dtype, double value) {
  return dtype == DType::fp32 ? static_cast<double>(static_cast<float>(value)) : value;
}

// A tensor that lies between guards: NaN (int32: the least number), so that a kernel that reads
// them spoils its result and one that writes them is found by values(). The elements begin as NaN
// too, so that "overwrites" cannot read them. The view is aligned to its element only.
class Array {
 public:
  Array(DType dtype, const Shape& shape)
      : storage_(memory(), Category::workspace, dtype, {shape.num_elements() + 2 * kGuard}),
        view_(storage_.view().elements(kGuard, shape)) {
    for (size_t i = 0; i < storage_.shape()[0]; ++i) set(i, guard());
  }
  Array(DType dtype, const Shape& shape, const Values& values) : Array(dtype, shape) {
    REQUIRE(values.size() == shape.num_elements());
    for (size_t i = 0; i < values.size(); ++i) set(kGuard + i, values[i]);
  }

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }       // NOLINT: used as its view
  operator ConstTensorView() const { return view_; }  // NOLINT

  // The elements. Fails the test if a guard was written.
  Values values() const {
    const size_t n = view_.num_elements();
    Values result(n);
    for (size_t i = 0; i < n; ++i) result[i] = get(kGuard + i);
    for (size_t i = 0; i < kGuard; ++i) {
      if (!is_guard(get(i)) || !is_guard(get(kGuard + n + i))) FAIL("a neighbour was written");
    }
    return result;
  }

 private:
  static constexpr size_t kGuard = 13;

  double guard() const {
    return storage_.dtype() == DType::int32 ? std::numeric_limits<int32_t>::min() : std::nan("");
  }
  bool is_guard(double value) const { return std::isnan(value) || value == guard(); }
  void set(size_t i, double value) {
    if (storage_.dtype() == DType::fp32) storage_.view().as<float>()[i] = static_cast<float>(value);
    if (storage_.dtype() == DType::fp64) storage_.view().as<double>()[i] = value;
    if (storage_.dtype() == DType::int32) {
      storage_.view().as<int32_t>()[i] = static_cast<int32_t>(value);
    }
  }
  double get(size_t i) const {
    if (storage_.dtype() == DType::fp32) return storage_.view().as<float>()[i];
    if (storage_.dtype() == DType::fp64) return storage_.view().as<double>()[i];
    return storage_.view().as<int32_t>()[i];
  }

  Tensor storage_;
  TensorView view_;
};

// n normal numbers of `dtype`, the stream of numbers called `name`.
inline Values random_values(DType dtype, size_t n, std::string_view name, double deviation = 1) {
  const uint64_t key = random_key(1, name);
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = rounded(dtype, random_normal_integer(key, i) / kNormalDeviation * deviation);
  }
  return values;
}

// n integers in [0, bound).
inline Values random_tokens(size_t n, size_t bound, std::string_view name) {
  const uint64_t key = random_key(1, name);
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = static_cast<double>(random_below(bound, random_word(key, i, 0)));
  }
  return values;
}

}  // namespace ladder::testing
