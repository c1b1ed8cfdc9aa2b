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

// Queues a kernel of so many seconds, in a range, and returns the host's time before it.
double queue(Stream& stream, const char* unit, const char* pass, double seconds) {
  const Range range(stream, unit, pass);
  const double before = host_time();
  Simulation::current()->launch(stream.simulated(),
                                {"work", DType::fp32, {.product_flops = seconds}});
  return before;
}

// What a range's end tells the observer that was there before.
struct Ends final : StreamObserver {
  void on_begin(std::string_view) override { ++begun; }
  void on_range(std::string_view, Time, Time) override { ++ended; }
  int begun = 0, ended = 0;
};

TEST_CASE("The host waits where a pass begins, and runs ahead within it") {
  Engine engine(kTimes, 1);
  engine.run([&](size_t) {
    Stream stream(kDevice);
    Ends ends;
    stream.set_observer(&ends);
    {
      const PassWaits waits(stream);
      // A kernel is queued in 0.25 s and takes 10.
      CHECK(queue(stream, "wte", "forward", 10) == 0);
      CHECK(queue(stream, "h.0", "forward", 10) == 0.25);
      CHECK(queue(stream, "wte", "classifier", 10) == 0.5);
      CHECK(queue(stream, "h.0", "recompute", 10) == 30.25);
      CHECK(queue(stream, "h.0", "backward", 10) == 30.5);
      CHECK(queue(stream, "wte", "forward", 10) == 50.5);   // the next micro-batch
      CHECK(queue(stream, "wte", "forward", 10) == 60.75);  // and one whose stage has a unit
      CHECK(queue(stream, "h.0", "AdamW", 10) == 71);
      CHECK(queue(stream, "h.1", "AdamW", 10) == 71.25);
    }
    CHECK((ends.begun == 9 && ends.ended == 9));
    CHECK(stream.observer() == &ends);
    CHECK(queue(stream, "wte", "forward", 10) == 71.5);
    stream.set_observer(nullptr);
  });
}

}  // namespace
}  // namespace ladder
