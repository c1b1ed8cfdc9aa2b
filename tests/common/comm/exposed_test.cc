// For how long a rank has waited for communication, against clocks that the test reads itself.
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/runtime/clock.h"
#include "tests/catch.h"
#include "tests/mpi_main.h"

namespace ladder {
namespace {

double now() { return seconds_between(Time(), Clock::now()); }

constexpr TrafficKey kGradient = {Purpose::gradient, Collective::all_reduce};
constexpr TrafficKey kActivation = {Purpose::activation, Collective::all_reduce};

// Two ranks that sum, of which the second comes late. Nothing can end before it has come.
struct LateSum {
  // Calls begin(*this), then ask(*this), and checks that the operation `key` has been waited for
  // while `ask` ran, and from about its beginning until rank 1 came.
  LateSum(const TrafficKey& key, void (*begin)(LateSum&), void (*ask)(LateSum&)) {
    const auto others = ranks->split(0);
    others->barrier();
    if (ranks->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    double came = now();
    begin(*this);
    const double asked = now();
    ask(*this);
    const double answered = now();
    for (Work& each : work) each.wait(stream);
    others->broadcast(stream, {&came, DType::fp64, DeviceType::cpu, {1}}, 1, {}).wait(stream);
    const Traffic sum = ranks->ledger().entries().at(key);
    CHECK(sum.calls == 1);
    CHECK(sum.exposed_seconds <= answered - asked);
    // The thread may have stood still before the communicator looked at the clock, but not long.
    if (ranks->rank() == 0) CHECK(sum.exposed_seconds >= (came - asked) / 2);
  }
  void sum(Purpose purpose, bool background) {
    const TensorView view(values.data(), DType::fp32, DeviceType::cpu, {values.size()});
    work.push_back(ranks->all_reduce(stream, view, {.purpose = purpose, .background = background}));
  }

  std::unique_ptr<Communicator> ranks = testing::make_communicator(testing::world());
  Stream stream = Stream(DeviceType::cpu);
  std::vector<float> values = std::vector<float>(64);
  std::vector<Work> work;
};

TEST_CASE("a call is exposed until its peers have come") {
  const LateSum late(
      kGradient, [](LateSum&) {}, [](LateSum& ranks) { ranks.sum(Purpose::gradient, false); });
}

TEST_CASE("what runs in the background is exposed where it is waited for") {
  const LateSum late(
      kGradient, [](LateSum& ranks) { ranks.sum(Purpose::gradient, true); },
      [](LateSum& ranks) { ranks.work[0].wait(ranks.stream); });
}

TEST_CASE("a call is exposed while it waits for the one in the background before it, too") {
  const LateSum late(
      kActivation, [](LateSum& ranks) { ranks.sum(Purpose::gradient, true); },
      [](LateSum& ranks) { ranks.sum(Purpose::activation, false); });
}

}  // namespace
}  // namespace ladder
