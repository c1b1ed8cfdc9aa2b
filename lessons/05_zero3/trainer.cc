#include "lessons/05_zero3/trainer.h"

#include "kernels/elementwise.h"

namespace ladder {
namespace {

// Everything is sharded. Peers read the parameters in place.
StateShare share_of(const Layout& layout, MemorySource* registered) {
  StateShare share = StateShare::shards(layout);
  share.parameters.source = registered;
  return share;
}

}  // namespace

Prediction Zero3Trainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                 const Flags& flags) {
  const Layout layout(config.model, grid.data_size);
  Prediction prediction = Replica::predict(config, layout, share_of(layout, nullptr));
  prediction.device[Category::communication] =
      size_of(config.accumulation()) * GradientShards::num_elements(layout) +
      size_of(config.dtype) * UnitGatherer::num_elements(layout, flags.gather);
  prediction.host[Category::workspace] +=
      ShardCollector::num_bytes(layout, config.dtype, grid.rank);
  const size_t micro_batches = config.num_micro_batches(grid.data_size);
  prediction.step[{Purpose::gradient, Collective::reduce_scatter}] =
      traffic_of_all_units(layout, config.accumulation()).times(micro_batches);
  prediction.step[{Purpose::parameter, Collective::all_gather}] =
      UnitGatherer::traffic(layout, flags.gather, config.dtype).times(micro_batches);
  return prediction;
}

Zero3Trainer::Zero3Trainer(const TrainerContext& context, const Layout& layout, const Flags& flags)
    : world_(*context.world),
      replica_(context, layout, share_of(layout, context.registered)),
      ranks_(replica_, world_),
      gatherer_(context, replica_.layout, replica_.parameters, flags.gather),
      gradients_(context, replica_.layout, replica_.gradients),
      collector_(replica_, world_) {}

Hooks Zero3Trainer::hooks(Stream& stream) {
  return combined(gatherer_.hooks(stream, UnitGatherer::Walk::training), gradients_.hooks(stream));
}

StepResult Zero3Trainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    const Hooks units = hooks(stream);
    replica_.forward(Split::train, step_, ranks_.first_row() + row, units);
    replica_.backward(1 / num_tokens, units);
  }
  gradients_.wait(stream);
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  const double norm = ranks_.norm();
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  for (size_t unit = 0; unit < replica_.layout.units().size(); ++unit) {
    update_shard(replica_, unit, update);
  }
  return {loss, norm, update.learning_rate};
}

double Zero3Trainer::evaluate(size_t num_batches) {
  return ranks_.evaluate(num_batches, [&] {
    return gatherer_.hooks(replica_.context.stream, UnitGatherer::Walk::evaluation);
  });
}

}  // namespace ladder
