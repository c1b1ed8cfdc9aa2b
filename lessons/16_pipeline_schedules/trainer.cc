#include "lessons/16_pipeline_schedules/trainer.h"

#include <cmath>

#include "common/train/prediction.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

ChunkStage stage_at(const RunConfig& config, const ChunkPlan& plan, size_t index) {
  return {plan.of_stage(index), index, plan.layouts(config.model, index)};
}

ChunkPlan plan_for(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags) {
  const auto bytes = [&](const ChunkPlan& plan, size_t index, size_t num_slots) {
    ProcessGrid there = grid;
    there.rank = index;
    Rehearsal rehearsal(config, there);
    const ChunkStage stage = stage_at(config, plan, index);
    const StageMemory memory(rehearsal.context(), stage, num_slots);
    return rehearsal.device_peak().total();
  };
  return plan_chunks(config, grid, flags, bytes);
}

}  // namespace

StageMemory::StageMemory(const TrainerContext& context, const ChunkStage& stage, size_t num_slots)
    : state(context, stage.layouts.stage, 0, {.gradients = {.source = context.ranks->registered}}),
      runner(context, stage.layouts, state, stage.sends(), {.num_slots = num_slots}) {}

ProcessGrid ScheduleTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--pipeline-parallel-size", flags.pipeline_parallel_size, num_ranks);
  return {.pipeline_size = num_ranks, .rank = rank, .pipeline_links = num_links(flags)};
}

TrafficEntries ScheduleTrainer::traffic(const RunConfig& config, const ProcessGrid& grid,
                                        const Flags& flags) {
  const ChunkPlan plan = plan_for(config, grid, flags);
  return stage_at(config, plan, grid.place(Axis::pipeline)).traffic(config, false);
}

std::string ScheduleTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                      const Flags& flags) {
  const ChunkPlan plan = plan_for(config, grid, flags);
  draw_schedule(config, plan.pipeline);
  return stages_text(config, plan.pipeline);
}

ScheduleTrainer::ScheduleTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      stage_(stage_at(context.config, plan_for(context.config, context.ranks->grid, flags),
                      context.ranks->grid.place(Axis::pipeline))),
      memory_(context, stage_, stage_.num_slots()),
      pipeline_(context, stage_, memory_.runner) {}

StepResult ScheduleTrainer::step() {
  const RunConfig& config = context_.config;
  Communicator& world = context_.ranks->world;
  ModelState& state = memory_.state;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++state.step;
  fill(context_.stream, state.gradients, 0);
  const auto gradient = [&](size_t unit) {
    return unit_in_flat(stage_.layouts.stage, unit, state.gradients.view());
  };
  pipeline_.run({.number = state.step,
                 .first_sequence = 0,
                 .token_weight = 1 / num_tokens,
                 .gradient_is_final = {},
                 .shared_gradient = gradient});
  // Only the last part has losses.
  const double loss = sum_over(world, memory_.runner.total_loss()) / num_tokens;
  const double norm = std::sqrt(sum_over(world, state.squared_norm()));
  const AdamWStep step = state.optimizer.next_step(norm);
  state.update(step);
  return {loss, norm, step.learning_rate};
}

double ScheduleTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(batch, 0, config.global_batch_size);
    total += sum_over(context_.ranks->world, memory_.runner.total_loss());
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

}  // namespace ladder
