#include "lessons/01_single_gpu/trainer.h"

#include <cmath>

#include "kernels/elementwise.h"

namespace ladder {

StepResult SingleGpuTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < config.global_batch_size; row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, row);
    // The loss is the mean over the global batch, so each token weighs 1 / num_tokens whatever
    // micro-batch it is in, and gradients of micro-batches are simply added.
    replica_.backward(1 / num_tokens);
  }
  const double loss = replica_.losses.total() / num_tokens;
  const double norm = std::sqrt(replica_.squared_norm());
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

double SingleGpuTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = replica_.context.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    for (size_t row = 0; row < config.global_batch_size; row += config.micro_batch_size) {
      replica_.forward(Split::validation, static_cast<int64_t>(batch), row);
      replica_.evaluate();
    }
    total += replica_.losses.total();
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

}  // namespace ladder
