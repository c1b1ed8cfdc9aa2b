#include "lessons/16_pipeline_schedules/trainer.h"

#include <cmath>

#include "common/train/flags/validators.h"
#include "common/train/program/prediction.h"

namespace ladder {

ProcessGrid ScheduleTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--pipeline-parallel-size", flags.pipeline_parallel_size, num_ranks);
  return {.pipeline_size = num_ranks, .rank = rank, .pipeline_links = num_links(flags)};
}

SharedPlan ScheduleTrainer::plan(const Flags& flags, const RunConfig& config,
                                 const ProcessGrid& grid) {
  return plan_schedule(config, grid, flags, [&](const SharedPlan& plan, size_t stage) {
    ProcessGrid there = grid;
    there.rank = stage;
    return device_bytes<ScheduleTrainer>(config, there, flags, plan);
  });
}

ScheduleTrainer::ScheduleTrainer(const TrainerContext& context, const Flags&)
    : context_(context),
      stage_(context.plan, context.config.model, context.ranks->grid.group_rank(Axis::pipeline)),
      state_(context, stage_.layout, 0, {.gradients = {.source = context.ranks->registered}}),
      model_(context, stage_.layout, state_.parameters, state_.gradients,
             {.num_buffers = stage_.num_buffers(), .chunks = stage_.chunks}),
      pipeline_(context, stage_, model_) {}

StepResult ScheduleTrainer::step() {
  Communicator& world = context_.ranks->world;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  state_.clear_gradients();
  const auto gradient = [&](size_t unit) {
    return unit_in_flat(stage_.layout.trained(), unit, state_.gradients.view());
  };
  pipeline_.run({.number = state_.step,
                 .first_sequence = 0,
                 .token_weight = 1 / num_tokens,
                 .gradient_is_final = {},
                 .shared_gradient = gradient});
  // Only the last model chunk has losses.
  const double loss = sum_over(world, model_.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(world, state_.squared_norm()));
  return {loss, norm, state_.update(norm)};
}

double ScheduleTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(batch, 0, config.global_batch_size);
    total += sum_over(context_.ranks->world, model_.total_loss());
  }
  return total / model_.counted_in_validation(num_batches);
}

}  // namespace ladder
