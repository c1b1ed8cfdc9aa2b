#include "kernels/runtime/stream.h"

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/device_wait.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("copy copies every byte and nothing else") {
  Memory memory(DeviceType::cpu, "device", 0);
  Stream stream(DeviceType::cpu);
  // Below, at and above the size of one piece (1 MiB).
  for (size_t n : {size_t{1}, size_t{17}, size_t{1} << 18, (size_t{1} << 18) + 1, size_t{700001}}) {
    for (DType dtype : {DType::int32, DType::fp32}) {
      const Tensor from(memory, Category::workspace, DType::int32, {n});
      const Tensor to(memory, Category::workspace, DType::int32, {n + 2});
      int32_t* const in = from.view().as<int32_t>();
      int32_t* const out = to.view().as<int32_t>();
      for (size_t i = 0; i < n; ++i) in[i] = static_cast<int32_t>(i * 2654435761u);
      out[0] = out[n + 1] = 5;
      copy(stream, TensorView(out + 1, dtype, DeviceType::cpu, {n}),
           ConstTensorView(in, dtype, DeviceType::cpu, {n}));
      stream.synchronize();
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) wrong += out[i + 1] != in[i];
      CHECK(wrong == 0);
      CHECK(out[0] == 5);
      CHECK(out[n + 1] == 5);
    }
  }
}

TEST_CASE("copy names a wrong argument") {
  Memory memory(DeviceType::cpu, "device", 0);
  Stream stream(DeviceType::cpu);
  const Tensor a(memory, Category::workspace, DType::fp32, {2, 3});
  const Tensor b(memory, Category::workspace, DType::fp64, {2, 3});
  const Tensor c(memory, Category::workspace, DType::fp32, {3, 2});
  CHECK_THROWS_WITH(copy(stream, a, b),
                    ContainsSubstring("copy") && ContainsSubstring("`destination`"));
  CHECK_THROWS_WITH(copy(stream, a, c),
                    ContainsSubstring("copy") && ContainsSubstring("`destination`"));
  CHECK_THROWS_WITH(copy(stream, {}, a),
                    ContainsSubstring("copy") && ContainsSubstring("`destination`"));
  CHECK_THROWS_WITH(copy(stream, a, {}), ContainsSubstring("copy"));
}

TEST_CASE("events mark the order of a stream") {
  Stream stream(DeviceType::cpu);
  CHECK(stream.device() == DeviceType::cpu);
  Event first, second;
  first.record(stream);
  second.record(stream);
  second.synchronize();
  CHECK(Event::elapsed_ms(first, first) == 0);
  CHECK(Event::elapsed_ms(first, second) >= 0);
  CHECK(Event::elapsed_ms(second, first) == -Event::elapsed_ms(first, second));
  first.record(stream);  // moves the mark behind the other
  CHECK(Event::elapsed_ms(second, first) >= 0);
}

TEST_CASE("a wait ends when it has passed, or with what a check throws") {
  size_t questions = 0, waits = 0;
  const auto third_time = [&] { return ++questions == 3; };
  const auto wait = [&] { ++waits; };
  wait_with_checks(third_time, wait);
  CHECK(waits == 1);
  CHECK(questions == 0);
  size_t checks = 0;
  {
    const WaitCheck check([&] { ++checks; });
    const Time begin = Clock::now();
    wait_with_checks(third_time, wait);
    CHECK(waits == 1);
    CHECK(questions == 3);
    CHECK(checks >= 1);  // at once, and then every 10 ms
    CHECK(static_cast<double>(checks) <= 1 + seconds_since(begin) / 0.01);
    const WaitCheck other([] { throw Error("the peer is gone"); });
    CHECK_THROWS_WITH(wait_with_checks([] { return false; }, wait), "the peer is gone");
  }
  wait_with_checks([] { return false; }, wait);
  CHECK(waits == 2);
}

}  // namespace
}  // namespace ladder
