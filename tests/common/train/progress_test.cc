// Rates, estimates and divergence, on plain numbers.
#include "common/train/progress.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

RunConfig run_of(size_t global_batch_size) {
  RunConfig config;
  config.model = find_preset("nano").config;  // T = 32
  config.global_batch_size = global_batch_size;
  return config;
}

TEST_CASE("tokens per second are those of the global batch, whatever the micro-batch") {
  RunConfig config = run_of(16);
  CHECK(tokens_per_second(config, 1000) == 16 * 32);
  CHECK(tokens_per_second(config, 250) == 4 * 16 * 32);
  config.micro_batch_size = 2;
  CHECK(tokens_per_second(config, 250) == 4 * 16 * 32);
}

TEST_CASE("the FLOP/s of the model are compared with those of all ranks' devices together") {
  RunConfig config = run_of(16);
  CHECK_FALSE(flops_utilization(config, 4, 1000).has_value());
  // 6 N + 12 L C T: N = V C + L (12 C^2 + 13 C) + 2 C, without positions.
  const double n = 256 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32;
  const double flops_per_token = 6 * n + 12 * 2 * 32 * 32;
  config.peak_flops = 1024 * flops_per_token;
  CHECK(*flops_utilization(config, 1, 1024) == Approx(1).epsilon(1e-15));  // three roundings
  CHECK(*flops_utilization(config, 1, 256) == Approx(0.25).epsilon(1e-15));
  CHECK(*flops_utilization(config, 4, 1024) == Approx(0.25).epsilon(1e-15));
  CHECK(*flops_utilization(config, 8, 1024) == Approx(0.125).epsilon(1e-15));
}

TEST_CASE("the time left is that of the steps left, at the average of those so far") {
  CHECK(seconds_left(10, 1, 1) == 0);
  CHECK(seconds_left(10, 1, 5) == 40);
  CHECK(seconds_left(10, 4, 5) == 2.5);
  CHECK(seconds_left(10, 5, 5) == 0);
}

TEST_CASE("about 20 lines: the first, the last, and evenly in between") {
  const auto reported = [](int64_t num_steps) {
    std::vector<int64_t> steps;
    for (int64_t step = 1; step <= num_steps; ++step) {
      if (is_reported(step, num_steps)) steps.push_back(step);
    }
    return steps;
  };
  CHECK(reported(1) == std::vector<int64_t>{1});
  CHECK(reported(5) == std::vector<int64_t>{1, 2, 3, 4, 5});
  CHECK(reported(20).size() == 20);
  const std::vector<int64_t> of_200 = reported(200);
  REQUIRE(of_200.size() == 21);
  CHECK(of_200[0] == 1);
  for (size_t i = 1; i < of_200.size(); ++i) CHECK(of_200[i] == 10 * static_cast<int64_t>(i));
  const std::vector<int64_t> of_1000003 = reported(1'000'003);
  CHECK(of_1000003.size() == 21);
  CHECK(of_1000003.back() == 1'000'003);
}

TEST_CASE("a line of progress says how far, how good, how fast, how long") {
  const StepResult result = {.loss = 5.43215, .grad_norm = 2.34567};
  CHECK(progress_text(7, 200, result, 12'345.9, 62) ==
        "step   7/200  loss 5.4322  grad norm 2.346  12,345 tokens/s  1:02 left");
  for (const double norm : {kNan, -kNan, kInfinity}) {
    const StepResult skipped = {.loss = 5, .grad_norm = norm, .loss_scale = 64, .skipped = true};
    CHECK(progress_text(7, 200, skipped, 12'345.9, 62) ==
          "step   7/200  loss 5.0000  grad norm overflow  12,345 tokens/s  1:02 left");
  }
}

bool diverged(const StepResult& result) {
  try {
    check_not_diverged(7, result);
    return false;
  } catch (const Error& error) {
    CHECK_THAT(error.what(),
               ContainsSubstring("step 7: loss ") && ContainsSubstring("has diverged"));
    return true;
  }
}

TEST_CASE("training has diverged where the loss or the norm alone is not finite") {
  CHECK_FALSE(diverged({.loss = 5, .grad_norm = 2}));
  CHECK_FALSE(diverged({.loss = 1e300, .grad_norm = 1e300}));
  for (const double bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    CHECK(diverged({.loss = bad, .grad_norm = 2}));
    CHECK(diverged({.loss = 5, .grad_norm = bad}));
    CHECK(diverged({.loss = bad, .grad_norm = bad}));
    // A step is skipped because of its gradients; what their scale is the loss does not know.
    CHECK_FALSE(diverged({.loss = 5, .grad_norm = bad, .loss_scale = 64, .skipped = true}));
    CHECK(diverged({.loss = bad, .grad_norm = bad, .loss_scale = 64, .skipped = true}));
    CHECK(diverged({.loss = bad, .grad_norm = 2, .loss_scale = 64, .skipped = true}));
    CHECK_THROWS_WITH(check_not_diverged(7, bad), ContainsSubstring("step 7: validation loss "));
  }
  CHECK_NOTHROW(check_not_diverged(7, 5.5));
}

}  // namespace
}  // namespace ladder
