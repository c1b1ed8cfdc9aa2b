#include "lessons/08_pipeline_parallel/trainer.h"

#include <cmath>

#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {

ProcessGrid PipelineTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--pipeline-parallel-size", flags.pipeline_parallel_size, num_ranks);
  return {.pipeline_size = num_ranks, .rank = rank};
}

Prediction PipelineTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  const Stage stage(config, grid, flags);
  Prediction prediction =
      Replica::predict(config, stage.layout, StateShare::whole(stage.layout), stage.num_slots());
  prediction.host[Category::workspace] += StageCollector::num_bytes(config, stage.plan.parts, grid);
  add_pipeline_traffic(prediction, config, stage.schedule(), stage.layout.unit(0).padded_elements);
  return prediction;
}

PipelineTrainer::PipelineTrainer(const TrainerContext& context, const Flags& flags, Stage stage)
    : stage_(std::move(stage)),
      replica_(context, stage_.layout, StateShare::whole(stage_.layout, context.registered),
               stage_.num_slots()),
      pipeline_(replica_, *context.groups, stage_.schedule()),
      collector_(context, stage_.plan.parts) {
  if (!flags.draw.empty() && context.grid.rank == 0) write_drawing(flags.draw, stage_.plan);
}

StepResult PipelineTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Communicator& world = *replica_.context.world;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(replica_.context.stream, replica_.gradients, 0);
  const TensorView first_unit = unit_in_flat(replica_.layout, 0, replica_.gradients.view());
  pipeline_.run({.number = step_,
                 .first_row = 0,
                 .loss_scale = 1 / num_tokens,
                 .last_backward = {},
                 .reduce_embedding = [&] { reduce_embedding(replica_, first_unit); }});
  const double loss = sum_over(world, replica_.losses.total()) / num_tokens;  // of the last stage
  const double norm = std::sqrt(sum_over(world, replica_.squared_norm()));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

double PipelineTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = replica_.context.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(static_cast<int64_t>(batch), 0, config.global_batch_size);
    total += sum_over(*replica_.context.world, replica_.losses.total());
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

std::string PipelineTrainer::report() {
  return bubble_text(stage_.plan, times_of_stages(*replica_.context.world, pipeline_.times()),
                     replica_.context.config.num_micro_batches(1));
}

}  // namespace ladder
