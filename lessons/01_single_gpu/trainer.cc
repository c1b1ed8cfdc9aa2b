#include "lessons/01_single_gpu/trainer.h"

#include <cmath>

#include "kernels/elementwise.h"

namespace ladder {

SingleGpuTrainer::SingleGpuTrainer(const TrainerContext& context, const Flags&)
    : context_(context),
      layout_(context.config.model, 1),
      state_(context, layout_),
      model_(context, layout_, state_.parameters, state_.gradients) {}

StepResult SingleGpuTrainer::step() {
  const RunConfig& config = context_.config;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  fill(context_.stream, state_.gradients, 0);
  for (size_t first = 0; first < config.global_batch_size; first += config.micro_batch_size) {
    model_.load(Split::train, state_.step, first);
    model_.forward();
    // The loss is the mean over the tokens of the global batch, so each token weighs 1 /
    // num_tokens, whichever micro-batch it is in, and gradients of micro-batches are simply added.
    model_.classify(1 / num_tokens);
    model_.backward();
  }
  const double loss = model_.total_loss() / num_tokens;
  const double norm = std::sqrt(state_.squared_norm());
  return {loss, norm, state_.update(norm)};
}

double SingleGpuTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    model_.evaluate_sequences(batch, 0, config.global_batch_size);
    total += model_.total_loss();
  }
  return total / model_.counted_in_validation(num_batches);
}

}  // namespace ladder
