// What the kernel tests put into kernels: arrays with guards on any device, random numbers.
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
  return dtype == DType::fp32 ? static_cast<double>(static_cast<float>(value)) : value;
}

// A tensor on the test's device that lies between guards: NaN (int32: the least number), so that a
// kernel that reads them spoils its result and one that writes them is found by values(). The
// elements begin as NaN too, so that "overwrites" cannot read them.
class Array {
 public:
  Array(DType dtype, const Shape& shape, const Values& values = {})
      : guard_(place().aligned ? 64 : 13),
        storage_(memory(), Category::workspace, dtype, {shape.num_elements() + 2 * guard_}),
        view_(storage_.view().elements(guard_, shape)) {
    const Tensor host(memory(DeviceType::cpu), Category::workspace, dtype, storage_.shape());
    for (size_t i = 0; i < storage_.shape()[0]; ++i) set(host, i, guard());
    if (!values.empty()) REQUIRE(values.size() == shape.num_elements());
    for (size_t i = 0; i < values.size(); ++i) set(host, guard_ + i, values[i]);
    copy(stream(), storage_, host);
    stream().synchronize();
  }

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }       // NOLINT: used as its view
  operator ConstTensorView() const { return view_; }  // NOLINT

  // The elements, when all that is queued has run. Fails the test if a guard was written.
  Values values() const {
    const Tensor host(memory(DeviceType::cpu), Category::workspace, storage_.dtype(),
                      storage_.shape());
    copy(stream(), host, storage_);
    stream().synchronize();
    const size_t n = view_.num_elements();
    Values result(n);
    for (size_t i = 0; i < n; ++i) result[i] = get(host, guard_ + i);
    for (size_t i = 0; i < guard_; ++i) {
      if (!is_guard(get(host, i)) || !is_guard(get(host, guard_ + n + i))) {
        FAIL("a neighbour was written");
      }
    }
    return result;
  }

 private:
  double guard() const {
    return storage_.dtype() == DType::int32 ? std::numeric_limits<int32_t>::min() : std::nan("");
  }
  bool is_guard(double value) const { return std::isnan(value) || value == guard(); }
  static void set(const TensorView& host, size_t i, double value) {
    if (host.dtype() == DType::fp32) host.as<float>()[i] = static_cast<float>(value);
    if (host.dtype() == DType::fp64) host.as<double>()[i] = value;
    if (host.dtype() == DType::int32) host.as<int32_t>()[i] = static_cast<int32_t>(value);
  }
  static double get(const TensorView& host, size_t i) {
    if (host.dtype() == DType::fp32) return host.as<float>()[i];
    if (host.dtype() == DType::fp64) return host.as<double>()[i];
    return host.as<int32_t>()[i];
  }

  size_t guard_;  // elements on either side: as many as keep the alignment
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
