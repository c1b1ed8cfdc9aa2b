// Steps whose gradients overflow: skipped on all ranks, whichever has the infinity.

#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/watched_memory.h"

namespace ladder {
namespace {

using namespace testing;
using Mixed = MixedPrecisionTrainer;

RunConfig config_of_50_steps() {
  RunConfig config = equivalence_config(DType::fp16, 6);
  config.optimizer.num_steps = 50;
  return config;
}

TEST_CASE("a step that overflows costs no step of the learning rate's schedule") {
  const RunConfig config = config_of_50_steps();
  for (size_t zero_stage : {0, 1}) {
    Groups groups(4);
    // Far too large to begin with: it halves, step by step, until nothing overflows.
    Session<Mixed> session(config, *groups.group, &groups.node_memory,
                           {.scale = {.initial_scale = 0x1p30, .window = 8, .hysteresis = 1},
                            .zero = {.stage = zero_stage}});
    int64_t num_skipped = 0, num_updates = 0;
    double first_scale_that_fits = 0;
    for (int step = 0; step < 50; ++step) {
      const StepResult result = session.trainer->step();
      if (result.skipped) {
        ++num_skipped;
        CHECK(result.learning_rate == 0);
        continue;
      }
      if (first_scale_that_fits == 0) first_scale_that_fits = *result.loss_scale;
      CHECK(result.learning_rate == learning_rate_at(config.optimizer, ++num_updates));
    }
    CHECK(num_skipped > 5);
    CHECK(first_scale_that_fits < 0x1p25);
    CHECK_NOTHROW(session.trainer->check_replicas());  // the same bits on all ranks
  }
}

TEST_CASE("a rank that alone has infinite gradients, whichever it is, skips the step on all") {
  const RunConfig config = equivalence_config(DType::fp16, 6);
  for (size_t zero_stage : {0, 1}) {
    Groups groups(4);
    for (size_t culprit = 0; culprit < 4; ++culprit) {
      INFO("rank " << culprit << ", ZeRO-" << zero_stage);
      // The culprit's loss scale is beyond fp16. The loss itself is not scaled.
      const double scale = groups.group->rank() == culprit ? 0x1p40 : 64;
      Session<Mixed> session(config, *groups.group, &groups.node_memory,
                             {.scale = {.loss_scale = scale}, .zero = {.stage = zero_stage}});
      const StepResult result = session.trainer->step();
      CHECK(result.skipped);
      CHECK(std::isfinite(result.loss));
      CHECK_NOTHROW(session.trainer->check_replicas());
    }
  }
}

// A weight of one rank is infinite during some steps, and so are this rank's gradients, alone.
TEST_CASE("50 steps with infinities on one rank: it is skipped on all, which stay the same") {
  constexpr uint16_t kInfinity = 0x7C00;
  const RunConfig config = config_of_50_steps();
  for (size_t zero_stage : {0, 1}) {
    INFO("ZeRO-" << zero_stage);
    Groups groups(4);
    Communicator& ranks = *groups.group;
    WatchedMemory source;
    Session<Mixed> session(config, ranks, nullptr,
                           {.scale = {.initial_scale = 4096, .window = 8, .hysteresis = 1},
                            .zero = {.stage = zero_stage}},
                           &source);
    const size_t p = Layout(config.model, 4).num_elements();
    uint16_t* const weight = source.find(p * 2) + 7;  // parameters in fp16
    int64_t num_updates = 0;
    double expected_scale = 4096, good_steps = 0;
    for (size_t step = 1; step <= 50; ++step) {
      const bool planted = step % 7 == 3 || step == 32;  // 31 and 32: twice in a row
      const bool is_culprit = planted && ranks.rank() == step % 4;
      const uint16_t kept = *weight;
      const uint64_t before = source.hash(p * 2);
      if (is_culprit) *weight = kInfinity;
      const StepResult result = session.trainer->step();
      if (is_culprit) *weight = kept;
      INFO("step " << step);
      CHECK(result.skipped == planted);
      CHECK(result.loss_scale == expected_scale);
      if (planted) CHECK(source.hash(p * 2) == before);
      if (!planted) {
        CHECK(source.hash(p * 2) != before);
        CHECK(result.learning_rate == learning_rate_at(config.optimizer, ++num_updates));
      }
      good_steps = planted ? 0 : good_steps + 1;
      if (planted) expected_scale /= 2;
      if (good_steps == 8) expected_scale *= 2, good_steps = 0;
      // Parameters, and where they are whole masters and moments, gradients too.
      for (size_t bytes : {p * 2, p * 4}) {
        if (bytes == p * 4 && zero_stage == 1) continue;  // gradients, each rank's own sums
        CHECK(same_on_all(ranks, {static_cast<double>(source.hash(bytes) >> 11)}));
      }
    }
    CHECK(num_updates == 42);
    CHECK_NOTHROW(session.trainer->check_replicas());
  }
}

}  // namespace
}  // namespace ladder
