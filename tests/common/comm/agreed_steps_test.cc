// A step that any rank names is the same for all ranks, whoever is late, and is known when it is
// over.
#include "common/comm/agreed_steps.h"

#include <random>

#include "tests/catch.h"
#include "tests/mpi_main.h"

namespace ladder::testing {
namespace {

// Makes steps from `first` on, each with a sum over all ranks, until a step that was named is over.
// Before step `told` this rank names its own number, unless `told` is 0. Returns the step and the
// number.
std::vector<uint64_t> make_steps(AgreedSteps& steps, Communicator& all, int64_t first,
                                 int64_t told) {
  Stream host(DeviceType::cpu);
  for (int64_t step = first;; ++step) {
    if (told != 0 && step >= told) {
      steps.name(AgreedSteps::kEnd, step, 1 + static_cast<int>(all.rank()));
    }
    double loss = 1;
    const TensorView sum(&loss, DType::fp64, DeviceType::cpu, {1});
    all.all_reduce(host, sum, {}).wait(host);
    CHECK(steps.find(AgreedSteps::kSave, step) == std::nullopt);
    const auto number = steps.find(AgreedSteps::kEnd, step);
    if (number) return {static_cast<uint64_t>(step), static_cast<uint64_t>(*number)};
    REQUIRE(step < first + 20);
  }
}

TEST_CASE("all ranks end after the same step, whichever of them are told, and when") {
  const auto all = make_communicator(world());
  AgreedSteps steps(&world());
  std::mt19937 random(1);  // the same on all ranks
  for (int64_t round = 0; round < 200; ++round) {
    const int64_t first = 1 + 100 * round;
    std::vector<int64_t> told(world().size());
    for (int64_t& step : told) step = random() % 2 == 0 ? 0 : first + random() % 4;
    told[random() % told.size()] = first + 3;
    const std::vector<uint64_t> end = make_steps(steps, *all, first, told[world().rank()]);
    const std::vector<uint64_t> ends = world().all_gather(end);
    CAPTURE(round, told, ends);
    int64_t earliest = first + 3;
    for (const int64_t step : told) earliest = step == 0 ? earliest : std::min(step, earliest);
    for (size_t r = 0; r < told.size(); ++r) {
      CHECK(ends[2 * r] == static_cast<uint64_t>(earliest));
      CHECK(ends[2 * r + 1] == end[1]);
    }
    CHECK(told[end[1] - 1] == earliest);
  }
}

TEST_CASE("one rank agrees with itself") {
  AgreedSteps steps(nullptr);
  steps.name(AgreedSteps::kSave, 5, 0);
  CHECK(steps.find(AgreedSteps::kSave, 4) == std::nullopt);
  CHECK(steps.find(AgreedSteps::kSave, 5) == 0);
  CHECK(steps.find(AgreedSteps::kEnd, 5) == std::nullopt);
  steps.name(AgreedSteps::kSave, 7, 0);
  CHECK(steps.find(AgreedSteps::kSave, 7) == 0);
}

}  // namespace
}  // namespace ladder::testing
