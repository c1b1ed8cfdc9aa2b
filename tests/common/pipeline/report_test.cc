// What a run says about its pipeline: of times that are given, and that of each stage's.
#include "common/pipeline/report.h"

#include "common/comm/mpi_transport.h"
#include "tests/catch.h"
#include "tests/common/schedule/lines.h"
#include "tests/mpi_main.h"

namespace ladder {
namespace {

// Two stages, all micro-batches forward and then back.
PipelinePlan two_stages() {
  return {.placement = {.num_stages = 2},
          .chunks = {},
          .schedule = schedule_of({"F0 F1 B0 B1", "F0 F1 B0 B1"}),
          .name = "gpipe"};
}

TEST_CASE("the bubble by the clock, by the measured times, and of equal stages") {
  // Of 2 x 9 seconds the stages were busy for 2 x 6. The schedule: a stage runs its 4 actions in 6
  // of 9 seconds. (2-1)/(2+2-1).
  const StageTimes even = {.forward = 2, .backward = 4, .all = 9};
  CHECK_THAT(bubble_text(two_stages(), {even, even}),
             ContainsSubstring("gpipe: 33.3 % of the wall time; 33.3 % by the schedule") &&
                 ContainsSubstring("33.3 % with equal stages"));
  // The slowest stage's time counts: 12 of 2 x 12 seconds.
  CHECK_THAT(bubble_text(two_stages(), {even, {2, 4, 0, 12}}),
             ContainsSubstring("50.0 % of the wall time"));
  CHECK_THAT(bubble_text(two_stages(), {{2, 4, 0, 12}, even}),
             ContainsSubstring("50.0 % of the wall time"));
  // The second stage takes twice as long, so an action of its forward 2, of its backward 4: its
  // last forward ends at 5, its backwards at 9 and 13, those of the first at 11 and 15. Of 2 x 15
  // seconds 6 and 12 are busy.
  const std::vector<StageTimes> uneven = {{2, 4, 0, 15}, {4, 8, 0, 20}};
  CHECK_THAT(bubble_text(two_stages(), uneven),
             ContainsSubstring("55.0 % of the wall time; 40.0 % by the schedule"));
  CHECK_THAT(bubble_text(two_stages(), uneven), ContainsSubstring("33.3 % with equal stages"));
  // One micro-batch at a time: half of the time, whatever their number. (2-1)/2.
  PipelinePlan naive = two_stages();
  naive.schedule = schedule_of({"F0 B0 F1 B1", "F0 B0 F1 B1"});
  naive.name = "naive";
  CHECK_THAT(bubble_text(naive, {even, even}), ContainsSubstring("50.0 % with equal stages"));
}

TEST_CASE("nothing is said of a bubble that was not measured") {
  CHECK(bubble_text(two_stages(), {{}, {}}).empty());
}

TEST_CASE("every stage hears of every stage's times") {
  const auto ranks = testing::make_communicator(testing::world(), nullptr, {});
  const double own = static_cast<double>(ranks->rank() + 1);
  const auto times = times_of_stages(*ranks, {own, 10 * own, 1000 * own, 100 * own});
  REQUIRE(times.size() == 3);
  for (size_t stage = 0; stage < times.size(); ++stage) {
    const double expected = static_cast<double>(stage + 1);
    CHECK(times[stage].forward == expected);
    CHECK(times[stage].backward == 10 * expected);
    CHECK(times[stage].weight == 1000 * expected);
    CHECK(times[stage].all == 100 * expected);
  }
}

}  // namespace
}  // namespace ladder
