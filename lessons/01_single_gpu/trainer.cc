#include "lessons/01_single_gpu/trainer.h"

#include <cmath>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

Tensor flat_tensor(const TrainerContext& context, Category category, const Layout& layout) {
  return Tensor(context.device_memory, category, context.config.dtype, {layout.num_elements()});
}

}  // namespace

Prediction SingleGpuTrainer::predict(const RunConfig& config, const ProcessGrid&, const Flags&) {
  const Layout layout(config.model, 1);
  const size_t size = size_of(config.dtype), flat = layout.num_elements() * size;
  const size_t batch = config.micro_batch_size, tokens = config.model.sequence_length;
  Prediction prediction;
  MemoryUse& device = prediction.device;
  device[Category::parameters] = flat;
  device[Category::gradients] = flat;
  device[Category::optimizer] = 2 * flat;
  device[Category::activations] = size * Activations::num_elements(config.model, batch, tokens);
  device[Category::workspace] = size * ModelWorkspace::num_elements(config.model, batch, tokens) +
                                BatchLoader::num_bytes(config) +
                                LossSum::num_bytes(config, config.num_micro_batches(1)) +
                                GradNorm::num_bytes(layout);
  prediction.host[Category::workspace] =
      BatchLoader::num_bytes(config) + ParameterStaging::num_bytes(layout, config.dtype);
  return prediction;
}

SingleGpuTrainer::SingleGpuTrainer(const TrainerContext& context, const Flags&)
    : context_(context),
      layout_(context.config.model, 1),
      parameters_(flat_tensor(context, Category::parameters, layout_)),
      gradients_(flat_tensor(context, Category::gradients, layout_)),
      exp_avg_(flat_tensor(context, Category::optimizer, layout_)),
      exp_avg_sq_(flat_tensor(context, Category::optimizer, layout_)),
      activations_(context.device_memory, context.config.model, context.config.dtype,
                   context.config.micro_batch_size, context.config.model.sequence_length),
      workspace_(context.device_memory, context.config.model, context.config.dtype,
                 context.config.micro_batch_size, context.config.model.sequence_length),
      model_(layout_, parameters_, gradients_),
      batch_(context),
      losses_(context, context.config.num_micro_batches(1)),
      grad_norm_(context.device_memory, layout_),
      staging_(context, layout_) {
  if (context.config.init.empty()) {
    initialize_parameters(context.stream, layout_, context.config.seed, 0, parameters_);
  } else {
    staging_.load(WeightsFile(context.config.init, layout_), parameters_);
  }
}

StepResult SingleGpuTrainer::step() {
  const RunConfig& config = context_.config;
  Stream& stream = context_.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, gradients_, 0);
  for (size_t row = 0; row < config.global_batch_size; row += config.micro_batch_size) {
    batch_.load(Split::train, step_, row);
    model_.forward(stream, activations_, batch_.tokens());
    // The loss is the mean over the global batch, so each token weighs 1 / num_tokens whatever
    // micro-batch it is in, and gradients of micro-batches are simply added.
    model_.classify(stream, activations_, workspace_, batch_.targets(), 1 / num_tokens);
    model_.backward(stream, activations_, workspace_, batch_.tokens());
    losses_.add(workspace_.losses(activations_));
  }
  const double loss = losses_.total() / num_tokens;
  const double norm = std::sqrt(grad_norm_.squared_norm_of_shards(stream, gradients_, 0));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  adamw_update(stream, layout_, 0, parameters_, exp_avg_, exp_avg_sq_, gradients_, update);
  return {loss, norm, update.learning_rate};
}

double SingleGpuTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    for (size_t row = 0; row < config.global_batch_size; row += config.micro_batch_size) {
      batch_.load(Split::validation, static_cast<int64_t>(batch), row);
      model_.forward(context_.stream, activations_, batch_.tokens());
      model_.evaluate(context_.stream, activations_, workspace_, batch_.targets());
      losses_.add(workspace_.losses(activations_));
    }
    total += losses_.total();
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void SingleGpuTrainer::visit(TensorKind kind, const TensorSink& sink) {
  const auto flat = [&]() -> ConstTensorView {
    switch (kind) {
      case TensorKind::param:
        return parameters_;
      case TensorKind::grad:
        return gradients_;
      case TensorKind::exp_avg:
        return exp_avg_;
      case TensorKind::exp_avg_sq:
        return exp_avg_sq_;
    }
    return {};
  };
  staging_.visit(flat(), sink);
}

}  // namespace ladder
