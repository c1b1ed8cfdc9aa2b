// Which activations wait on the host, and which of the two places on the device they use.
#include "common/model/offload_plan.h"

#include "tests/catch.h"
#include "tests/common/model/support.h"

namespace ladder::testing {
namespace {

constexpr const char* kSteps = "1qam2fgo";  // one letter for each step

// Returns the sets of a plan, such as "0: 0fg, 1: 0o 1fg". A star marks those that are copied.
std::string sets_of(const char* mode, size_t num_blocks, size_t num_in_flight) {
  const OffloadPlan plan(plan_recompute(parse_recompute(mode), num_blocks, num_in_flight),
                         num_blocks, num_in_flight);
  std::string text;
  for (size_t set = 0; set < plan.num_sets(); ++set) {
    text += concat(set == 0 ? "" : ", ", set, plan.is_copied(set) ? "*" : "", ":");
    for (size_t block = 0; block < num_blocks; ++block) {
      std::string letters;
      for (size_t step = 0; step < BlockOperations().size(); ++step) {
        if (plan.set_of(block, step) == set) letters += kSteps[step];
      }
      if (!letters.empty()) text += concat(" ", block, letters);
    }
  }
  return text;
}

TEST_CASE("a set is a group's input and what its blocks keep") {
  CHECK(sets_of("none", 4, 1) == "0*: 01qam2fg, 1*: 0o 11qam2fg, 2: 1o 21qam2fg, 3: 2o 31qam2fg");
  CHECK(sets_of("mlp", 3, 1) == "0*: 01qam2, 1: 0o 11qam2, 2: 1o 21qam2");
  CHECK(sets_of("block", 4, 1) == "0*:, 1*: 0o, 2: 1o, 3: 2o");
  CHECK(sets_of("block", 3, 2) == "0*:, 1*: 0o, 2*: 1o");
  CHECK(sets_of("every-2", 5, 1) == "0*:, 1: 1o, 2: 3o");
  CHECK(sets_of("none", 1, 1) == "0: 01qam2fg");
  CHECK(sets_of("none", 0, 1).empty());
  CHECK(OffloadPlan().set_of(3, 0) == std::nullopt);
}

TEST_CASE("two blocks of a group cannot keep the same tensor: the place has room for one") {
  const BlockOperations only_out = 1U << kBlockOutput;
  CHECK_THROWS_AS(OffloadPlan(RecomputePlan({only_out, {}}, 1), 2, 1), Error);
}

TEST_CASE("blocks that run whole again would write where another block's input is") {
  CHECK_THROWS_WITH(OffloadPlan(plan_recompute(parse_recompute("whole"), 3, 1), 3, 1),
                    "--offload-activations with --recompute whole: take block");
}

}  // namespace
}  // namespace ladder::testing
