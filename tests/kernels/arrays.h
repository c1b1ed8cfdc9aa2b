// What the kernel tests put into kernels: arrays with guards on any device, random numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/runtime/random.h"
#include "kernels/runtime/stream.h"
#include "tests/catch.h"

namespace ladder::testing {

// Elements of any dtype, held exactly.
using Values = std::vector<double>;

inline constexpr DType kAccumulation[] = {DType::fp32, DType::fp64};
inline std::vector<DType> floats() { return {DType::fp32, DType::fp64, DType::bf16, DType::fp16}; }
inline constexpr size_t kOddSizes[] = {1, 17, 63, 65};

// Where a test runs: the device of its arrays and of stream(), and how its arrays are aligned.
struct Place {
  DeviceType device = DeviceType::cpu;
  bool aligned = false;  // to 64 bytes, else to one element
};

// The CPU and the other device of this build. On that one also with aligned arrays, where kernels
// may move several elements at once. A CUDA build where there is no GPU tests the CPU alone.
inline std::vector<Place> places() {
  const DeviceType other = cuda_device_of_build();
  std::vector<Place> all = {{DeviceType::cpu, false}};
  if (num_devices(other) == 0) {
    WARN("no GPU here: tested on the CPU only");
    return all;
  }
  all.push_back({other, false});
  all.push_back({other, true});
  return all;
}

// The place of the running test: the CPU, unless the test has on_every_device().
inline Place& place() {
  static Place current;
  return current;
}

// Lives as long as its test.
class OnDevice {
 public:
  explicit OnDevice(Place where)
      : message_(Catch::MessageBuilder("INFO", {__FILE__, __LINE__}, Catch::ResultWas::Info)
                 << "on " << name_of(where.device) << (where.aligned ? ", aligned" : "")) {
    place() = where;
  }
  ~OnDevice() { place() = {}; }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Catch::ScopedMessage message_;  // names the place when an assertion fails
};

// The first line of a test: `const OnDevice on = on_every_device();` runs it once in each place.
[[nodiscard]] inline OnDevice on_every_device() { return OnDevice(GENERATE(from_range(places()))); }

// The memory and the stream of `device`, this test's if it is left out.
inline Memory& memory(DeviceType device = place().device) {
  static Memory cpu(DeviceType::cpu, "device", 0), other(cuda_device_of_build(), "device", 0);
  return device == DeviceType::cpu ? cpu : other;
}

inline Stream& stream() {
  static Stream cpu(DeviceType::cpu);
  if (place().device == DeviceType::cpu) return cpu;
  static Stream other(place().device);
  return other;
}

// The nearest number of `dtype`. One addition, multiplication, division or square root in double,
// then rounded, is that operation in fp32: 53 bits are more than twice 24.
// Not inlined: g++ 12 -O3 turns two neighbouring conversions to float and back into none.
[[gnu::noinline]] inline double rounded(DType dtype, double value) {
  return dispatch_float(dtype, [value](auto zero) {
    return static_cast<double>(static_cast<decltype(zero)>(value));
  });
}

// What a kernel stores that got `value` by one operation: it computes in the accumulation type, and
// rounds once more where elements are bf16 or fp16.
inline double stored(DType dtype, double value) {
  return rounded(dtype, rounded(accumulation_dtype(dtype), value));
}

// A tensor on the test's device that lies between guards: signaling NaN (int32: the least number),
// so that a kernel that reads them spoils its result, and one that writes them is found by
// values(), also if it wrote what came of them: arithmetic makes them quiet. The elements begin as
// such too, so that "overwrites" cannot read them.
class Array {
 public:
  Array(DType dtype, const Shape& shape, const Values& values = {})
      : guards_(place().aligned ? 64 : 13),
        storage_(memory(), Category::workspace, dtype, {shape.num_elements() + 2 * guards_}),
        view_(storage_.view().elements(guards_, shape)) {
    if (!values.empty()) REQUIRE(values.size() == shape.num_elements());
    const Tensor host = on_host();
    with_elements(host, [&]<class T>(T* element) {
      std::fill_n(element, storage_.shape()[0], guard<T>());
      for (size_t i = 0; i < values.size(); ++i) element[guards_ + i] = static_cast<T>(values[i]);
    });
    copy(stream(), storage_, host);
    stream().synchronize();
  }

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }       // NOLINT: used as its view
  operator ConstTensorView() const { return view_; }  // NOLINT

  // The elements, when all that is queued has run. Fails the test if a guard was written.
  Values values() const {
    const Tensor host = on_host();
    copy(stream(), host, storage_);
    stream().synchronize();
    const size_t n = view_.num_elements();
    Values result;
    with_elements(host, [&]<class T>(const T* element) {
      result.assign(element + guards_, element + guards_ + n);
      for (size_t i = 0; i < guards_; ++i) {
        if (!is_guard(element[i]) || !is_guard(element[guards_ + n + i])) {
          FAIL("a neighbour was written");
        }
      }
    });
    return result;
  }

 private:
  Tensor on_host() const {
    return Tensor(memory(DeviceType::cpu), Category::workspace, storage_.dtype(), storage_.shape());
  }
  template <class Function>
  static void with_elements(const TensorView& host, Function function) {
    if (host.dtype() == DType::int32) return function(host.as<int32_t>());
    dispatch_float(host.dtype(), [&](auto zero) { function(host.as<decltype(zero)>()); });
  }
  template <class T>
  static T guard() {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_same_v<T, bfloat16>) {
      return bfloat16::from_bits(0x7F81);
    } else if constexpr (std::is_same_v<T, float16>) {
      return float16::from_bits(0x7C01);
    } else {
      return Limits::has_signaling_NaN ? Limits::signaling_NaN() : Limits::min();
    }
  }
  template <class T>
  static bool is_guard(const T& element) {
    const T expected = guard<T>();
    return std::memcmp(&element, &expected, sizeof element) == 0;
  }

  size_t guards_;  // on either side: as many as keep the alignment
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
