// StageTimer on simulated devices, where the host goes on at once and time passes exactly.
#include "common/pipeline/stage_timer.h"

#include <algorithm>
#include <random>

#include "common/virtual/engine.h"
#include "tests/catch.h"
#include "tests/common/virtual/times.h"

namespace ladder {
namespace {

const SimpleTimes kTimes;

// A kernel of so many seconds.
void compute(Stream& stream, double seconds) {
  Simulation::current()->launch(stream.simulated(),
                                {"work", DType::fp32, {.product_flops = seconds}});
}

TEST_CASE("parts take what the device takes, whatever the host does meanwhile") {
  std::mt19937 random(GENERATE(1, 2, 3));
  const auto draw = [&](unsigned most) { return static_cast<double>(4 + random() % most); };
  Engine engine(kTimes, 1);
  engine.run([&](size_t) {
    Stream stream(DeviceType::emulator), other(DeviceType::emulator);
    StageTimer clock(stream);
    StageTimes expected;
    for (size_t step = 0; step < 4; ++step) {
      StageTimes own = {.steps = 1};
      clock.begin_step();
      compute(stream, 50);  // which does not count, and gives the host a lead
      clock.time(&StageTimes::all, [&] {
        for (size_t action = 0; action < 5; ++action) {
          const double message = draw(50), forward = draw(20), classifier = draw(9);
          clock.time(&StageTimes::message, [&] {
            Event here, come;
            here.record(stream);
            other.wait(here);
            compute(other, message);
            come.record(other);
            stream.wait(come);
          });
          clock.time(&StageTimes::forward, [&] {
            compute(stream, forward);
            clock.time(&StageTimes::classifier, [&] { compute(stream, classifier); });
          });
          own.message = own.message == 0 ? message : std::min(own.message, message);
          own.forward += forward + classifier;
          own.classifier += classifier;
          own.all += message + forward + classifier;
        }
      });
      if (step % 2 == 1) CHECK(clock.times().steps == static_cast<double>(step));
      if (step == 0) continue;  // the first step does not count
      expected.forward += own.forward;
      expected.classifier += own.classifier;
      expected.all += own.all;
      expected.steps += 1;
      expected.message =
          expected.message == 0 ? own.message : std::min(expected.message, own.message);
    }
    const StageTimes times = clock.times();
    constexpr double kRounding = 1e-12;
    CHECK_THAT(times.forward, Catch::Matchers::WithinRel(expected.forward, kRounding));
    CHECK_THAT(times.classifier, Catch::Matchers::WithinRel(expected.classifier, kRounding));
    CHECK_THAT(times.message, Catch::Matchers::WithinRel(expected.message, kRounding));
    CHECK_THAT(times.all, Catch::Matchers::WithinRel(expected.all, kRounding));
    CHECK(times.steps == expected.steps);
    CHECK(times.backward + times.weight == 0);
  });
}

TEST_CASE("no step, and the first one alone, have no times") {
  Stream stream(DeviceType::cpu);
  StageTimer clock(stream);
  CHECK(clock.times().steps == 0);
  clock.begin_step();
  clock.time(&StageTimes::all, [] {});
  CHECK(clock.times().steps == 0);
  CHECK(clock.times().all == 0);
  clock.begin_step();
  clock.time(&StageTimes::all, [] {});
  CHECK(clock.times().steps == 1);
  CHECK(clock.times().all > 0);
}

}  // namespace
}  // namespace ladder
