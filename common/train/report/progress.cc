#include "common/train/report/progress.h"

#include <algorithm>
#include <cmath>

#include "common/train/report/report.h"

namespace ladder {
namespace {

constexpr const char* kAdvice =
    ": training has diverged; try a smaller --learning-rate or longer --warmup-steps";

// Returns what follows the word "loss": a number, or why there is none.
std::string loss_text(std::optional<double> loss) {
  return loss ? format(" %.4f", *loss) : ": no token counts";
}

}  // namespace

double tokens_per_second(const RunConfig& config, double step_ms) {
  return static_cast<double>(config.tokens_per_step()) / step_ms * 1e3;
}

std::optional<double> flops_utilization(const RunConfig& config, size_t num_ranks,
                                        double tokens_per_second) {
  if (config.peak_flops == 0) return std::nullopt;
  const double peak = config.peak_flops * static_cast<double>(num_ranks);
  return tokens_per_second * describe(config.model).flops_per_token() / peak;
}

MetricsFile::Step measure(const RunConfig& config, size_t num_ranks, int64_t step,
                          const StepResult& result, double step_ms) {
  const double rate = tokens_per_second(config, step_ms);
  return {.step = step,
          .result = result,
          .step_ms = step_ms,
          .tokens_per_second = rate,
          .mfu = flops_utilization(config, num_ranks, rate),
          .validation_loss = {},
          .sequences_per_second = rate / static_cast<double>(config.model.sequence_length)};
}

double seconds_left(double seconds, int64_t step, int64_t num_steps) {
  return seconds / static_cast<double>(step) * static_cast<double>(num_steps - step);
}

bool is_reported(int64_t step, int64_t num_steps) {
  constexpr int64_t kLines = 20;
  if (step == 1 || step == num_steps) return true;
  return step * kLines / num_steps != (step - 1) * kLines / num_steps;
}

std::string progress_text(int64_t step, int64_t num_steps, const StepResult& result,
                          double tokens_per_second, double seconds_left) {
  const std::string norm = result.skipped ? "overflow" : format("%.3f", result.grad_norm);
  const std::string loss = loss_text(result.has_loss ? std::optional(result.loss) : std::nullopt);
  return format("step %*lld/%lld  loss%s  grad norm %s  %s tokens/s  %s left",
                static_cast<int>(std::to_string(num_steps).size()), static_cast<long long>(step),
                static_cast<long long>(num_steps), loss.c_str(), norm.c_str(),
                with_commas(static_cast<uint64_t>(tokens_per_second)).c_str(),
                clock_text(seconds_left).c_str());
}

std::string validation_text(const MetricsFile::Step& step) {
  return format("step %lld  validation loss%s%s\n", static_cast<long long>(step.step),
                loss_text(step.validation_loss).c_str(),
                step.accuracy ? format("  accuracy %.4f", *step.accuracy).c_str() : "");
}

std::string Progress::after_step(int64_t step, const StepResult& result, double step_ms,
                                 double seconds, size_t width) {
  constexpr double kSeconds = 30;
  const int64_t num_steps = config_.optimizer.num_steps;
  ++steps_;
  step_ms_ += step_ms;
  const bool is_due = seconds - shown_at_ >= kSeconds || step == num_steps;
  const bool stays = is_due || (width == 0 && is_reported(step, num_steps));
  if (!stays && width == 0) return "";
  const double rate = tokens_per_second(config_, step_ms_ / static_cast<double>(steps_));
  const double left = seconds_left(seconds, step - resumed_step_, num_steps - resumed_step_);
  std::string text = progress_text(step, num_steps, result, rate, left);
  if (stays) {
    steps_ = 0;
    step_ms_ = 0;
    shown_at_ = seconds;
  }
  if (width == 0) return text + "\n";
  // A line as wide as the terminal would go on in the next one, where nothing replaces it.
  if (!stays) text.resize(std::min(text.size(), width - 1));
  const std::string rest(open_ > text.size() ? open_ - text.size() : 0, ' ');
  open_ = stays ? 0 : text.size();
  return concat("\r", text, rest, stays ? "\n" : "");
}

std::string Progress::end() {
  if (open_ == 0) return "";
  open_ = steps_ = 0;
  step_ms_ = 0;
  return "\n";
}

void check_not_diverged(int64_t step, const StepResult& result) {
  const bool norm_is_fine = std::isfinite(result.grad_norm) || result.skipped;
  if (std::isfinite(result.loss) && norm_is_fine) return;
  throw Error(
      concat("step ", step, ": loss ", result.loss, ", gradient norm ", result.grad_norm, kAdvice));
}

void check_not_diverged(int64_t step, double validation_loss) {
  if (std::isfinite(validation_loss)) return;
  throw Error(concat("step ", step, ": validation loss ", validation_loss, kAdvice));
}

}  // namespace ladder
