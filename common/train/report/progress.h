// Computes how fast a run goes, how long it will still take, and whether it has diverged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/train/report/metrics_file.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// Returns how many tokens all ranks together train on in a second if a step takes `step_ms`.
double tokens_per_second(const RunConfig& config, double step_ms);

// Returns the model FLOP/s utilization: the FLOP/s that the model's formula gives at this rate, as
// a fraction of what the devices of all `num_ranks` ranks can do together. Returns nothing if
// --peak-flops is not given. [Chowdhery22 PaLM, appendix B]
std::optional<double> flops_utilization(const RunConfig& config, size_t num_ranks,
                                        double tokens_per_second);

// Returns what is known of a step that took `step_ms`, on so many ranks.
MetricsFile::Step measure(const RunConfig& config, size_t num_ranks, int64_t step,
                          const StepResult& result, double step_ms);

// Returns the seconds that the steps after `step` will take, if each takes as long as the average
// so far, evaluations and dumps included. `seconds` have passed since the first step began.
// REQUIRES: step >= 1.
double seconds_left(double seconds, int64_t step, int64_t num_steps);

// Returns whether `step` (1-based) gets a line when only some steps do: the first, the last, and
// about 20 in all, evenly spread.
bool is_reported(int64_t step, int64_t num_steps);

// Returns the line of a step, as in "step  7/10  loss 5.4321  grad norm 2.345  1,234 tokens/s  0:42
// left". A step that was skipped because its gradients overflowed has "grad norm overflow", and
// one in which no token counts "no token counts" in place of the loss.
std::string progress_text(int64_t step, int64_t num_steps, const StepResult& result,
                          double tokens_per_second, double seconds_left);

// Returns the line of an evaluation after a step, which without a validation loss says that no
// token counts.
std::string validation_text(const MetricsFile::Step& step);

// Makes the lines of a run's steps. On a terminal a line takes the place of the one before, and one
// every 30 seconds stays. Elsewhere the lines of is_reported() and one every 30 seconds are made.
class Progress {
 public:
  // The run goes on after `resumed_step`. `config` outlives this object.
  Progress(const RunConfig& config, int64_t resumed_step)
      : config_(config), resumed_step_(resumed_step) {}

  // Returns what to print after a step, which took `step_ms`, `seconds` after the first one began.
  // `width`: the columns of the terminal; 0 = no terminal. Tokens per second are the mean over the
  // steps since the last line that stayed.
  std::string after_step(int64_t step, const StepResult& result, double step_ms, double seconds,
                         size_t width);
  // Returns what to print before anything else is: a line's end, if one is missing.
  std::string end();

 private:
  const RunConfig& config_;
  int64_t resumed_step_;
  int64_t steps_ = 0;                  // since the last line that stayed
  double step_ms_ = 0, shown_at_ = 0;  // of these steps in all; seconds at that line
  size_t open_ = 0;                    // characters of the line that the next one replaces
};

// Throws an Error that names the step if training has diverged: if the loss or the gradient's norm
// is infinite or NaN. A step that was skipped may have such a norm, because a loss scale that is
// too large makes gradients overflow. The loss itself is not scaled, so it must be finite in every
// step.
void check_not_diverged(int64_t step, const StepResult& result);
// Does the same for a validation loss after the step.
void check_not_diverged(int64_t step, double validation_loss);

}  // namespace ladder
