#include "common/train/model_runner.h"

#include <utility>

#include "common/model/offload.h"
#include "common/train/ranks.h"

namespace ladder {
namespace {

ModelWorkspace make_workspace(const TrainerContext& context, const Layout& layout,
                              const ModelRunner::Options& options) {
  const RunConfig& config = context.config;
  const size_t num_blocks = layout.count(OperationKind::block);
  const RecomputePlan plan = plan_recompute(config.recompute, num_blocks, options.num_slots);
  return ModelWorkspace(
      context.device_memory, layout, config.dtype, config.micro_batch_size,
      options.part.capacity(config.model.sequence_length), options.summed, plan,
      config.offload_activations ? OffloadPlan(plan, num_blocks, options.num_slots) : OffloadPlan(),
      config.round_logits);
}

// Returns how many micro-batches this rank runs in a step.
size_t num_micro_batches(const TrainerContext& context) {
  const size_t data_size = context.ranks == nullptr ? 1 : context.ranks->grid.data_size;
  return context.config.num_micro_batches(data_size);
}

}  // namespace

ModelRunner::ModelRunner(const TrainerContext& context, const Layout& layout,
                         ConstTensorView parameters, TensorView gradients, Options options)
    : stream_(context.stream),
      micro_batch_size_(context.config.micro_batch_size),
      workspace_(make_workspace(context, layout, options)),
      model_(layout, parameters, gradients, std::move(options.tensor), workspace_.shared().plan(),
             std::move(options.context), options.mixture),
      losses_(context, num_micro_batches(context),
              context.config.micro_batch_size *
                  options.part.capacity(context.config.model.sequence_length)) {
  const RunConfig& config = context.config;
  const size_t length = config.model.sequence_length;
  if (config.offload_activations) {
    offload_ = std::make_unique<ActivationOffload>(
        context.host_memory, layout, config.dtype,
        config.micro_batch_size * options.part.capacity(length), workspace_.shared(),
        context.stream.device(), options.num_slots);
  }
  for (size_t slot = 0; slot < options.num_slots; ++slot) {
    slots_.push_back(
        {BatchLoader(context, options.part),
         Activations(context.device_memory, layout, config.dtype, config.micro_batch_size,
                     options.part.capacity(length), &workspace_.shared())});
    slots_.back().activations.resize(config.micro_batch_size, options.part.num_tokens(length));
  }
}

ModelRunner::~ModelRunner() = default;

Hooks ModelRunner::with_offload(const Hooks& hooks, size_t slot) {
  return offload_ ? offload_->added_to(hooks, stream_, slots_[slot].activations, slot) : hooks;
}

void ModelRunner::load(Split split, int64_t step, size_t first_sequence, size_t slot) {
  slots_[slot].batch.load(split, step, first_sequence);
}

void ModelRunner::forward(const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.forward(stream_, activations, workspace_, {batch.tokens(), batch.positions()},
                 with_offload(hooks, slot));
}

void ModelRunner::classify(double token_weight, const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.classify(stream_, activations, workspace_, batch.targets(), token_weight, hooks);
  losses_.add(workspace_.losses(activations));
}

void ModelRunner::backward(const Hooks& hooks, size_t slot) {
  const auto& [batch, activations] = slots_[slot];
  model_.backward(stream_, activations, workspace_, {batch.tokens(), batch.positions()},
                  with_offload(hooks, slot));
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
