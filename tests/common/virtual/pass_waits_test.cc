// A host that waits for its device before each pass of a step, and how long a step then takes.
#include "common/train/run/pass_waits.h"

#include "common/virtual/engine.h"
#include "kernels/runtime/range.h"
#include "tests/catch.h"
#include "tests/common/virtual/times.h"

namespace ladder {
namespace {

const SimpleTimes kTimes;
constexpr DeviceType kDevice = DeviceType::emulator;

double host_time() { return seconds_between(Time(), Clock::now()); }

// Queues a kernel of 10 seconds, in a range, and returns the host's time before it.
double queue(Stream& stream, const char* unit) {
  const Range range(stream, unit, "forward");
  const double before = host_time();
  Simulation::current()->launch(stream.simulated(), {"work", DType::fp32, {.product_flops = 10}});
  return before;
}

// What the observer that was there before is told.
struct Calls final : StreamObserver {
  void on_pass() override { ++passes; }
  void on_range(std::string_view, Time, Time) override { ++ranges; }
  int passes = 0, ranges = 0;
};

TEST_CASE("The host waits before a pass, and runs ahead within it") {
  Engine engine(kTimes, 1);
  engine.run([&](size_t) {
    Stream stream(kDevice);
    Calls calls;
    stream.set_observer(&calls);
    {
      const PassWaits waits(stream);
      {
        const Range pass = Range::pass(stream, "forward");
        CHECK(queue(stream, "wte") == 0);
        CHECK(queue(stream, "h.0") == 0.25);
      }
      CHECK(queue(stream, "wte") == 0.5);  // the classifier: no pass of its own
      for (const double begin : {30.25, 50.5}) {
        const Range pass = Range::pass(stream, "backward");
        CHECK(queue(stream, "h.1") == begin);
        CHECK(queue(stream, "h.0") == begin + 0.25);
      }
    }
    CHECK((calls.passes == 3 && calls.ranges == 7));
    CHECK(stream.observer() == &calls);
    const Range pass = Range::pass(stream, "forward");
    CHECK(queue(stream, "wte") == 51);  // without PassWaits the host runs ahead
    stream.set_observer(nullptr);
  });
}

}  // namespace
}  // namespace ladder
