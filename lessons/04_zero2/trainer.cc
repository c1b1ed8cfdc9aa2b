#include "lessons/04_zero2/trainer.h"

#include "kernels/elementwise.h"

namespace ladder {
namespace {

// The parameters are whole. Peers read them in place.
StateShare share_of(const Layout& layout, MemorySource* registered) {
  StateShare share = StateShare::shards(layout);
  share.parameters = {.elements = layout.num_elements(), .source = registered};
  return share;
}

}  // namespace

Prediction Zero2Trainer::predict(const RunConfig& config, const ProcessGrid& grid, const Flags&) {
  const Layout layout(config.model, grid.data_size);
  Prediction prediction = Replica::predict(config, layout, share_of(layout, nullptr));
  prediction.device[Category::communication] =
      GradientShards::num_elements(layout) * size_of(config.accumulation());
  prediction.host[Category::workspace] +=
      ShardCollector::num_bytes(layout, config.dtype, grid.rank);
  prediction.step[{Purpose::gradient, Collective::reduce_scatter}] =
      traffic_of_all_units(layout, config.accumulation())
          .times(config.num_micro_batches(grid.data_size));
  prediction.step[{Purpose::parameter, Collective::all_gather}] =
      traffic_of_all_units(layout, config.dtype);
  return prediction;
}

Zero2Trainer::Zero2Trainer(const TrainerContext& context, const Layout& layout)
    : world_(*context.world),
      replica_(context, layout, share_of(layout, context.registered)),
      ranks_(replica_, world_),
      gradients_(context, replica_.layout, replica_.gradients),
      collector_(replica_, world_) {}

StepResult Zero2Trainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, ranks_.first_row() + row);
    // Nobody keeps a whole gradient until the last micro-batch: every one is summed.
    replica_.backward(1 / num_tokens, gradients_.hooks(stream));
  }
  gradients_.wait(stream);
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  const double norm = ranks_.norm();
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  update_and_gather(replica_, world_, update);
  return {loss, norm, update.learning_rate};
}

}  // namespace ladder
