// How fast a run goes, how far it is, and whether it still makes sense: arithmetic on plain
// numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/train/trainer.h"

namespace ladder {

// Tokens that all ranks together train on in a second, where a step takes `step_ms`.
double tokens_per_second(const RunConfig& config, double step_ms);

// Model FLOP/s utilization: the FLOP/s that the model's formula asks for at this rate, as a
// fraction of what the devices of all `num_ranks` ranks can do together. Nothing where --peak-flops
// is not given. [Chowdhery22 PaLM, appendix B]
std::optional<double> flops_utilization(const RunConfig& config, size_t num_ranks,
                                        double tokens_per_second);

// Seconds that the steps after `step` will take if each takes as long as the average so far, with
// its share of evaluations and dumps. `seconds`: since the first step began. REQUIRES: step >= 1.
double seconds_left(double seconds, int64_t step, int64_t num_steps);

// Whether `step` (1-based) gets a line where not every step does: the first, the last, and about 20
// in all, evenly spread.
bool is_reported(int64_t step, int64_t num_steps);

// "step  7/10  loss 5.4321  grad norm 2.345  1,234 tokens/s  0:42 left".
std::string progress_text(int64_t step, int64_t num_steps, const StepResult& result,
                          double tokens_per_second, double seconds_left);

// Throws Error, naming the step, where training has diverged: the loss is infinite or NaN, or the
// gradient's norm is. Only a step that was skipped may have such a norm: a loss scale that is too
// large makes gradients overflow. It never makes the loss overflow, which is not scaled, so that a
// skipped step whose loss is not finite has diverged too.
void check_not_diverged(int64_t step, const StepResult& result);
// The same of a validation loss after the step.
void check_not_diverged(int64_t step, double validation_loss);

}  // namespace ladder
