#include "lessons/10_mixed_precision/trainer.h"

#include <cmath>
#include <map>
#include <vector>

#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Peers sum where gradients lie, or where they lie in --reduce-dtype; with ZeRO-1 they read
// parameters.
StateShare share_of(const Layout& layout, const MixedPrecisionTrainer::Flags& flags,
                    MemorySource* registered) {
  StateShare share = StateShare::whole(layout);
  share.gradients.source = registered;
  if (flags.zero_stage == 1) {
    share.moment = StateShare::shards(layout).moment;
    share.parameters.source = registered;
  }
  return share;
}

// fp64 runs are for comparing: nothing is rounded there.
DType reduce_dtype(const RunConfig& config, const MixedPrecisionTrainer::Flags& flags) {
  return config.dtype == DType::fp64 ? DType::fp64 : flags.reduce_dtype;
}

bool scales(const RunConfig& config, const MixedPrecisionTrainer::Flags& flags) {
  return config.dtype == DType::fp16 || flags.scale.loss_scale > 0;
}

std::vector<Bucket> buckets_for(const Layout& layout, const RunConfig& config,
                                const MixedPrecisionTrainer::Flags& flags) {
  return make_buckets(layout, config.accumulation(), flags.bucket_bytes);
}

}  // namespace

void MixedPrecisionTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "Mixed precision";
  static const std::map<std::string, DType> kDtypes = {
      {"fp32", DType::fp32}, {"bf16", DType::bf16}, {"fp16", DType::fp16}};
  app.add_option("--zero-stage", zero_stage,
                 "What data-parallel ranks share: 0 nothing, 1 the optimizer's state [0]")
      ->check(whole(0, 1))
      ->group(group);
  app.add_option("--reduce-dtype", reduce_dtype,
                 "Of gradients between ranks: fp32, bf16 or fp16 [fp32]")
      ->transform(CLI::Transformer(kDtypes).description(""))
      ->group(group);
  app.add_flag("--no-master-weights", no_master_weights,
               "Round the masters to --dtype after every update: what a model without them learns")
      ->group(group);
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size [25MiB]")
      ->transform(byte_size())
      ->group(group);
  scale.add_to(app);
}

Prediction MixedPrecisionTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                          const Flags& flags) {
  const Layout layout(config.model, grid.data_size);
  const DType reduced = reduce_dtype(config, flags);
  Prediction prediction = Replica::predict(config, layout, share_of(layout, flags, nullptr));
  if (reduced != config.accumulation()) {
    prediction.device[Category::communication] += layout.num_elements() * size_of(reduced);
  }
  if (scales(config, flags) && grid.rank == 0) {
    prediction.host[Category::workspace] += ParameterStaging::num_bytes(layout, config.dtype);
  }
  if (flags.zero_stage == 1) {
    prediction.host[Category::workspace] +=
        ShardCollector::num_bytes(layout, config.dtype, grid.rank);
    prediction.step[{Purpose::gradient, Collective::reduce_scatter}] =
        traffic_of_all_units(layout, reduced);
    prediction.step[{Purpose::parameter, Collective::all_gather}] =
        traffic_of_all_units(layout, config.dtype);
  } else {
    prediction.step[{Purpose::gradient, Collective::all_reduce}] = {
        .calls = buckets_for(layout, config, flags).size(),
        .payload_bytes = layout.num_elements() * size_of(reduced)};
  }
  return prediction;
}

MixedPrecisionTrainer::MixedPrecisionTrainer(const TrainerContext& context, const Layout& layout,
                                             const Flags& flags)
    : world_(*context.world),
      flags_(flags),
      replica_(context, layout, share_of(layout, flags, context.registered)),
      ranks_(replica_, world_),
      scaler_(flags.scale, context.config.dtype == DType::fp16) {
  const DType reduced = reduce_dtype(context.config, flags);
  if (reduced != context.config.accumulation()) {
    reduced_ = Tensor(context.device_memory, Category::communication, reduced,
                      {layout.num_elements()}, context.registered);
  }
  if (scales(context.config, flags) && world_.rank() == 0) {
    const size_t bytes = ParameterStaging::num_bytes(layout, context.config.dtype);
    const DType full = context.config.accumulation();
    unscaled_ = Tensor(context.host_memory, Category::workspace, full, {bytes / size_of(full)});
  }
  if (flags.zero_stage == 1) {
    scatter_.emplace(replica_, world_, reduced_);
    shards_.emplace(replica_, world_);
  } else {
    buckets_.emplace(replica_.gradients, world_, buckets_for(layout, context.config, flags), true,
                     reduced_);
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
    const bool is_last = ranks_.is_last(row);
    replica_.backward(scale / num_tokens, !is_last   ? Hooks()
                                          : buckets_ ? buckets_->hooks(stream)
                                                     : scatter_->hooks(stream));
  }
  buckets_ ? buckets_->wait(stream) : scatter_->wait(stream);
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

void MixedPrecisionTrainer::update(const AdamWStep& step) {
  AdamWStep unscaled = step;
  unscaled.grad_scale /= last_scale_;
  if (scatter_) {
    update_and_gather(replica_, world_, unscaled);
  } else {
    replica_.update(unscaled);
  }
  if (!flags_.no_master_weights || replica_.master.view().empty()) return;
  if (!scatter_) return cast(replica_.context.stream, replica_.master, replica_.parameters);
  for (size_t unit = 0; unit < replica_.layout.units().size(); ++unit) {
    cast(replica_.context.stream, replica_.shard(TensorKind::param, unit),
         replica_.shard_of(replica_.parameters, unit));
  }
}

void MixedPrecisionTrainer::visit(TensorKind kind, const TensorSink& sink) {
  const TensorSink unscaled = [&](const Parameter& parameter, ConstTensorView tensor) {
    if (kind != TensorKind::grad || unscaled_.view().empty()) return sink(parameter, tensor);
    const TensorView out = unscaled_.view().elements(0, tensor.shape());
    scale(host_stream_, out, tensor, 1 / last_scale_);  // exact: a power of two, unless the user's
    sink(parameter, out);
  };
  if (shards_) return shards_->visit(kind, unscaled);
  if (world_.rank() == 0) replica_.visit(kind, unscaled);
}

}  // namespace ladder
