#include "lessons/03_zero1/trainer.h"

#include "kernels/elementwise.h"

namespace ladder {
Prediction Zero1Trainer::predict(const RunConfig& config, const ProcessGrid& grid, const Flags&) {
  const Layout layout(config.model, grid.data_size);
  Prediction prediction = Replica::predict(config, layout, zero1_share(layout, nullptr));
  prediction.host[Category::workspace] +=
      ShardCollector::num_bytes(layout, config.dtype, grid.rank);
  prediction.step[{Purpose::gradient, Collective::reduce_scatter}] =
      traffic_of_all_units(layout, config.accumulation());
  prediction.step[{Purpose::parameter, Collective::all_gather}] =
      traffic_of_all_units(layout, config.dtype);
  return prediction;
}

Zero1Trainer::Zero1Trainer(const TrainerContext& context, const Layout& layout)
    : world_(*context.world),
      replica_(context, layout, zero1_share(layout, context.registered)),
      ranks_(replica_, world_),
      scatter_(replica_, world_),
      collector_(replica_, world_) {}

StepResult Zero1Trainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  for (size_t row = 0; row < ranks_.num_rows(); row += config.micro_batch_size) {
    replica_.forward(Split::train, step_, ranks_.first_row() + row);
    replica_.backward(1 / num_tokens, ranks_.is_last(row) ? scatter_.hooks(stream) : Hooks());
  }
  scatter_.wait(stream);
  const double loss = sum_over(world_, replica_.losses.total()) / num_tokens;
  const double norm = ranks_.norm();
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  update_and_gather(replica_, world_, update);
  return {loss, norm, update.learning_rate};
}

}  // namespace ladder
