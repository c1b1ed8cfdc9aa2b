// Rates, estimates and divergence, on plain numbers.
#include "common/train/report/progress.h"

#include <algorithm>
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

// What a terminal shows at the end, in lines: "\r" goes back to the beginning of a line, and a line
// that is wider than the terminal goes on in the next one.
std::vector<std::string> screen(const std::string& printed, size_t width) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (const char c : printed) {
    if (c == '\r') {
      column = 0;
    } else if (c == '\n' || column == width) {
      lines.emplace_back();
      column = 0;
    }
    if (c == '\r' || c == '\n') continue;
    lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
    lines.back()[column++] = c;
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

// What a run of 4 seconds a step prints, with an evaluation after step 5, on a terminal of this
// width.
std::string printed_by(int64_t num_steps, size_t width, double step_ms = 4000) {
  RunConfig config = run_of(16);
  config.optimizer.num_steps = num_steps;
  Progress progress(config, 0);
  std::string printed;
  for (int64_t step = 1; step <= num_steps; ++step) {
    const StepResult result = {.loss = 5 - static_cast<double>(step) / 100, .grad_norm = 2};
    const double seconds = static_cast<double>(step) * step_ms / 1000;
    printed += progress.after_step(step, result, step_ms, seconds, width);
    if (step == 5) printed += progress.end() + "step 5  validation loss 3\n";
  }
  return printed + progress.end();
}

TEST_CASE("on a terminal of any width a step takes one line, and lines of every 30 seconds stay") {
  const size_t width = GENERATE(20, 40, 80, 200);
  CAPTURE(width);
  std::vector<std::string> starts;
  for (const std::string& line : screen(printed_by(20, width), 200)) {
    starts.push_back(line.substr(0, line.find("  loss")));
  }
  // Those that stay are not cut: a terminal shows them in as many lines as it needs.
  CHECK(starts == std::vector<std::string>{"step  5/20", "step 5  validation loss 3", "step  8/20",
                                           "step 16/20", "step 20/20", ""});
  const std::string all = printed_by(7, width);
  for (size_t at = 0, next; at < all.size(); at = next + 1) {
    next = std::min(all.find_first_of("\r\n", at), all.size());
    const bool stays = next < all.size() && all[next] == '\n';
    if (!stays) CHECK(next - at < width);
  }
}

TEST_CASE("elsewhere there are about 20 lines, and one every 30 seconds, each at its end") {
  const auto count = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  CHECK(count(printed_by(400, 0, 1)) == 21 + 1);  // with that of the evaluation
  CHECK(count(printed_by(40, 0, 30'000)) == 40 + 1);
  CHECK(printed_by(400, 0).find('\r') == std::string::npos);
}

TEST_CASE("the rate of a line is the mean over the steps since the last line that stayed") {
  RunConfig config = run_of(16);  // 512 tokens a step
  config.optimizer.num_steps = 1000;
  Progress progress(config, 0);
  const StepResult result = {.loss = 5, .grad_norm = 2};
  const auto rate = [&](int64_t step, double step_ms, double seconds) {
    const std::string text = progress.after_step(step, result, step_ms, seconds, 80);
    const size_t end = text.find(" tokens/s"), begin = text.rfind("  ", end) + 2;
    return text.substr(begin, end - begin);
  };
  CHECK(rate(1, 1000, 1) == "512");
  CHECK(rate(2, 3000, 4) == "256");
  CHECK(rate(3, 32'000, 36) == "42");  // 3 steps in 36 s; it stays
  CHECK(rate(4, 500, 36.5) == "1,024");
}

TEST_CASE("where no token counts a line says so in place of a loss") {
  CHECK_THAT(progress_text(3, 10, {.loss = 0, .grad_norm = 2, .has_loss = false}, 512, 7),
             StartsWith("step  3/10  loss: no token counts  grad norm 2.000  512 tokens/s"));
  CHECK_THAT(progress_text(3, 10, {.loss = 0, .grad_norm = 2}, 512, 7),
             StartsWith("step  3/10  loss 0.0000  grad norm 2.000  512 tokens/s"));
  MetricsFile::Step step = measure(run_of(16), 1, 3, {}, 1000);
  CHECK(validation_text(step) == "step 3  validation loss: no token counts\n");
  step.validation_loss = 5.5;
  CHECK(validation_text(step) == "step 3  validation loss 5.5000\n");
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
