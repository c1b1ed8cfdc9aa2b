#include "lessons/01_single_gpu/replica.h"

namespace ladder {
namespace {

Tensor flat_tensor(const TrainerContext& context, Category category, const Layout& layout,
                   MemorySource* source = nullptr) {
  return Tensor(context.device_memory, category, context.config.dtype, {layout.num_elements()},
                source);
}

}  // namespace

Prediction Replica::predict(const RunConfig& config, size_t data_size) {
  const Layout layout(config.model, data_size);
  const size_t size = size_of(config.dtype), flat = layout.num_elements() * size;
  const size_t sequences = config.micro_batch_size, tokens = config.model.sequence_length;
  Prediction prediction;
  MemoryUse& device = prediction.device;
  device[Category::parameters] = flat;
  device[Category::gradients] = flat;
  device[Category::optimizer] = 2 * flat;
  device[Category::activations] = size * Activations::num_elements(config.model, sequences, tokens);
  device[Category::workspace] =
      size * ModelWorkspace::num_elements(config.model, sequences, tokens) +
      BatchLoader::num_bytes(config) +
      LossSum::num_bytes(config, config.num_micro_batches(data_size)) + GradNorm::num_bytes(layout);
  prediction.host[Category::workspace] =
      BatchLoader::num_bytes(config) + ParameterStaging::num_bytes(layout, config.dtype);
  return prediction;
}

Replica::Replica(const TrainerContext& c, size_t data_size, MemorySource* gradient_source)
    : context(c),
      layout(c.config.model, data_size),
      parameters(flat_tensor(c, Category::parameters, layout)),
      gradients(flat_tensor(c, Category::gradients, layout, gradient_source)),
      exp_avg(flat_tensor(c, Category::optimizer, layout)),
      exp_avg_sq(flat_tensor(c, Category::optimizer, layout)),
      activations(c.device_memory, c.config.model, c.config.dtype, c.config.micro_batch_size,
                  c.config.model.sequence_length),
      workspace(c.device_memory, c.config.model, c.config.dtype, c.config.micro_batch_size,
                c.config.model.sequence_length),
      model(layout, parameters, gradients),
      batch(c),
      losses(c, c.config.num_micro_batches(data_size)),
      grad_norm(c.device_memory, layout),
      staging(c, layout) {
  if (c.config.init.empty()) {
    initialize_parameters(c.stream, layout, c.config.seed, 0, parameters);
  } else {
    staging.load(WeightsFile(c.config.init, layout), parameters);
  }
}

void Replica::forward(Split split, int64_t step, size_t first_row) {
  batch.load(split, step, first_row);
  model.forward(context.stream, activations, batch.tokens(), traced({}));
}

void Replica::backward(double loss_scale, const Hooks& hooks) {
  const Hooks all = traced(hooks);
  model.classify(context.stream, activations, workspace, batch.targets(), loss_scale, all);
  model.backward(context.stream, activations, workspace, batch.tokens(), all);
  losses.add(workspace.losses(activations));
}

void Replica::evaluate() {
  model.evaluate(context.stream, activations, workspace, batch.targets());
  losses.add(workspace.losses(activations));
}

void Replica::update(const AdamWStep& step) {
  if (context.trace != nullptr) context.trace->mark();
  adamw_update(context.stream, layout, 0, parameters, exp_avg, exp_avg_sq, gradients, step);
  if (context.trace != nullptr) context.trace->add_since_mark("AdamW");
}

Hooks Replica::traced(const Hooks& hooks) {
  if (context.trace == nullptr) return hooks;
  context.trace->mark();
  return context.trace->hooks(layout, hooks);
}

void Replica::visit(TensorKind kind, const TensorSink& sink) {
  const auto flat = [&]() -> ConstTensorView {
    switch (kind) {
      case TensorKind::param:
        return parameters;
      case TensorKind::grad:
        return gradients;
      case TensorKind::exp_avg:
        return exp_avg;
      case TensorKind::exp_avg_sq:
        return exp_avg_sq;
    }
    return {};
  };
  staging.visit(flat(), sink);
}

}  // namespace ladder
