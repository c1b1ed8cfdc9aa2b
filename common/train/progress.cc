#include "common/train/progress.h"

#include <cmath>

#include "common/train/report.h"

namespace ladder {

double tokens_per_second(const RunConfig& config, double step_ms) {
  return static_cast<double>(config.tokens_per_step()) / step_ms * 1e3;
}

std::optional<double> flops_utilization(const RunConfig& config, size_t num_ranks,
                                        double tokens_per_second) {
  if (config.peak_flops == 0) return std::nullopt;
  const double peak = config.peak_flops * static_cast<double>(num_ranks);
  return tokens_per_second * describe(config.model).flops_per_token() / peak;
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
  return format("step %*lld/%lld  loss %.4f  grad norm %s  %s tokens/s  %s left",
                static_cast<int>(std::to_string(num_steps).size()), static_cast<long long>(step),
                static_cast<long long>(num_steps), result.loss, norm.c_str(),
                with_commas(static_cast<uint64_t>(tokens_per_second)).c_str(),
                clock_text(seconds_left).c_str());
}

namespace {

constexpr const char* kAdvice =
    ": training has diverged; try a smaller --learning-rate or longer --warmup-steps";

}  // namespace

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
