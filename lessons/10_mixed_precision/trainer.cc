#include "lessons/10_mixed_precision/trainer.h"

#include <cmath>

#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// UserError in fp64 where another is asked for: fp64 runs are for comparing, nothing is rounded.
DType reduce_dtype(const RunConfig& config, const MixedPrecisionTrainer::Flags& flags) {
  if (config.dtype == DType::fp64 && flags.reduce_dtype) {
    throw UserError(
        concat("--reduce-dtype ", name_of(*flags.reduce_dtype),
               " with --dtype fp64, whose gradients are reduced in fp64; leave it out"));
  }
  return flags.reduce_dtype.value_or(config.accumulation());
}

bool scales(const RunConfig& config, const MixedPrecisionTrainer::Flags& flags) {
  return config.dtype == DType::fp16 || flags.scale.loss_scale > 0;
}

// Empty where gradients are summed as they are.
Tensor reduced_tensor(const TrainerContext& context, const Layout& layout,
                      const MixedPrecisionTrainer::Flags& flags) {
  const DType reduced = reduce_dtype(context.config, flags);
  if (reduced == context.config.accumulation()) return {};
  return Tensor(context.device_memory, Category::communication, reduced, {layout.num_elements()},
                context.registered);
}

}  // namespace

void MixedPrecisionTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Mixed precision";
  const auto set_reduce_dtype = [this](const std::string& name) {
    reduce_dtype = name == "fp32" ? DType::fp32 : name == "bf16" ? DType::bf16 : DType::fp16;
  };
  app.add_option_function<std::string>("--reduce-dtype", set_reduce_dtype,
                                       "Of gradients between ranks: fp32, bf16 or fp16 [fp32]")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}).description(""))
      ->group(group);
  app.add_flag("--no-master-weights", no_master_weights,
               "Round the masters to --dtype after every update: what a model without them learns")
      ->group(group);
  zero.add_to(app, group);
  scale.add_to(app);
}

Prediction MixedPrecisionTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                          const Flags& flags) {
  flags.scale.check();
  const Layout layout(config.model, grid.data_size);
  const DType reduced = reduce_dtype(config, flags);
  Prediction prediction = Replica::predict(config, layout, share_of(layout, flags.zero, nullptr));
  if (reduced != config.accumulation()) {
    prediction.device[Category::communication] += layout.num_elements() * size_of(reduced);
  }
  if (scales(config, flags) && grid.rank == 0) {
    prediction.host[Category::workspace] += ParameterStaging::num_bytes(layout, config.dtype);
  }
  ZeroStage::add_to(prediction, config, grid, layout, flags.zero, Axis::world, reduced);
  return prediction;
}

MixedPrecisionTrainer::MixedPrecisionTrainer(const TrainerContext& context, const Layout& layout,
                                             const Flags& flags)
    : world_(*context.world),
      flags_(flags),
      replica_(context, layout, share_of(layout, flags.zero, context.registered)),
      ranks_(replica_, world_),
      reduced_(reduced_tensor(context, layout, flags)),
      zero_(replica_, world_, flags.zero, reduced_),
      scaler_(flags.scale, context.config.dtype == DType::fp16) {
  if (scales(context.config, flags) && world_.rank() == 0) {
    const size_t bytes = ParameterStaging::num_bytes(layout, context.config.dtype);
    const DType full = context.config.accumulation();
    unscaled_ = Tensor(context.host_memory, Category::workspace, full, {bytes / size_of(full)});
  }
}

StepResult MixedPrecisionTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  const double scale = last_scale_ = scaler_.scale();
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, ranks_.first_row() + row);
    replica_.backward(scale / num_tokens, ranks_.is_last(row) ? zero_.hooks(stream) : Hooks());
  }
  zero_.wait(stream);
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  // An infinity anywhere makes the norm infinite or NaN on every rank: all decide alike.
  const double norm = ranks_.norm() / scale;
  const bool overflow = !std::isfinite(norm);
  if (!overflow) update(adamw_step(config.optimizer, ++num_updates_, norm));
  scaler_.update(overflow, step_);
  return {.loss = loss,
          .grad_norm = norm,
          .learning_rate = overflow ? 0 : learning_rate_at(config.optimizer, num_updates_),
          .loss_scale = scale,
          .skipped = overflow};
}

void MixedPrecisionTrainer::update(AdamWStep step) {
  step.grad_scale /= last_scale_;
  zero_.update(step);
  if (flags_.no_master_weights && !replica_.master.view().empty()) {
    replica_.masters_from_parameters();
  }
}

void MixedPrecisionTrainer::visit(TensorKind kind, const TensorSink& sink) {
  const TensorSink unscaled = [&](const Parameter& parameter, ConstTensorView tensor) {
    if (kind != TensorKind::grad || unscaled_.view().empty()) return sink(parameter, tensor);
    const TensorView out = unscaled_.view().elements(0, tensor.shape());
    scale(host_stream_, out, tensor, 1 / last_scale_);  // exact: a power of two, unless the user's
    sink(parameter, out);
  };
  zero_.visit(kind, unscaled);
}

}  // namespace ladder
