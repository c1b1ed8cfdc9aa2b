#include "common/train/model_runner.h"

#include <utility>

namespace ladder {

ModelRunner::ModelRunner(const TrainerContext& context, const Layout& layout,
                         ConstTensorView parameters, TensorView gradients, Options options)
    : stream_(context.stream),
      micro_batch_size_(context.config.micro_batch_size),
      workspace_(context.device_memory, layout, context.config.dtype,
                 context.config.micro_batch_size, context.config.model.sequence_length,
                 options.summed,
                 plan_recompute(context.config.recompute, layout.count(OperationKind::block),
                                options.num_slots)),
      model_(layout, parameters, gradients, std::move(options.tensor), workspace_.shared().plan()),
      losses_(context, context.config.num_micro_batches(layout.world_size())) {
  const RunConfig& config = context.config;
  for (size_t slot = 0; slot < options.num_slots; ++slot) {
    slots_.push_back(
        {BatchLoader(context),
         Activations(context.device_memory, layout, config.dtype, config.micro_batch_size,
                     config.model.sequence_length, &workspace_.shared())});
  }
}

void ModelRunner::load(Split split, int64_t step, size_t first_sequence, size_t slot) {
  slots_[slot].batch.load(split, step, first_sequence);
}

void ModelRunner::forward(const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.forward(stream_, activations, workspace_, batch.tokens(), hooks);
}

void ModelRunner::classify(double token_weight, const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.classify(stream_, activations, workspace_, batch.targets(), token_weight, hooks);
  losses_.add(workspace_.losses(activations));
}

void ModelRunner::backward(const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.backward(stream_, activations, workspace_, batch.tokens(), hooks);
}

void ModelRunner::evaluate(const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.evaluate(stream_, activations, workspace_, batch.targets(), hooks);
  losses_.add(workspace_.losses(activations));
}

void ModelRunner::evaluate_sequences(size_t batch, size_t first, size_t end,
                                     const std::function<Hooks()>& hooks) {
  for (size_t sequence = first; sequence < end; sequence += micro_batch_size_) {
    const Hooks units = hooks();
    load(Split::validation, static_cast<int64_t>(batch), sequence);
    forward(units);
    evaluate(units);
  }
}

}  // namespace ladder
