#include "lessons/16_pipeline_schedules/trainer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/train/report.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"

namespace ladder {

ProcessGrid ScheduleTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--pipeline-parallel-size", flags.pipeline_parallel_size, num_ranks);
  return {.pipeline_size = num_ranks, .rank = rank, .pipeline_links = kNumLinks};
}

TrafficEntries ScheduleTrainer::traffic(const RunConfig& config, const ProcessGrid& grid,
                                        const Flags& flags) {
  const ChunkPlan plan = plan_chunks(config, grid, flags);
  const size_t stage = grid.place(Axis::pipeline);
  StageSchedule schedule = plan.schedule(stage);
  std::erase_if(schedule, [&](const Action& action) {  // copies
    return (is_send(action.kind) || is_recv(action.kind)) && action.peer == stage;
  });
  return pipeline_traffic(config, plan.layouts(config, stage).stage, schedule, false);
}

std::string ScheduleTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                      const Flags& flags) {
  const ChunkPlan plan = plan_chunks(config, grid, flags);
  if (!flags.draw.empty()) write_drawing(flags.draw, plan.pipeline);
  return stages_text(config, plan.pipeline);
}

ScheduleTrainer::ScheduleTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      plan_(plan_chunks(context.config, context.ranks->grid, flags)),
      stage_(context.ranks->grid.place(Axis::pipeline)),
      layouts_(plan_.layouts(context.config, stage_)),
      memory_(context, layouts_, plan_.placement, num_slots(plan_.schedule(stage_))),
      pipeline_(context, layouts_, plan_.placement, plan_.schedule(stage_), memory_.runner) {}

StepResult ScheduleTrainer::step() {
  const RunConfig& config = context_.config;
  Communicator& world = context_.ranks->world;
  ModelState& state = memory_.state;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++state.step;
  fill(context_.stream, state.gradients, 0);
  pipeline_.run(
      {.number = state.step, .token_weight = 1 / num_tokens, .gradients = state.gradients});
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
    pipeline_.evaluate(batch, config.global_batch_size);
    total += sum_over(context_.ranks->world, memory_.runner.total_loss());
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

std::string ScheduleTrainer::report() {
  Communicator& world = context_.ranks->world;
  const std::string bubble =
      bubble_text(plan_.pipeline, times_of_stages(world, pipeline_.times().stage));
  return bubble.empty() ? bubble : bubble + times_text();
}

std::string ScheduleTrainer::times_text() {
  Communicator& world = context_.ranks->world;
  const ChunkTimes& own = pipeline_.times();
  const double runs = own.steps * static_cast<double>(context_.config.num_micro_batches(1));
  const auto ms = [&](double seconds) { return 1000 * sum_over(world, seconds) / runs; };
  const double forward = ms(own.stage.forward - own.classifier), input = ms(own.stage.backward);
  const double weight = ms(own.stage.weight), classifier = ms(own.classifier);
  // The shortest of all; stages that receive nothing have none.
  std::vector<double> messages(world.size());
  for (size_t rank = 0; rank < world.size(); ++rank) {
    messages[rank] = sum_over(world, rank == world.rank() ? own.message : 0);
  }
  std::erase(messages, 0);
  const double message = messages.empty() ? 0 : 1000 * std::ranges::min(messages);
  return format("  for --schedule auto: --times %.3g,%.3g,%.3g,%.3g,%.2g\n", forward,
                weight > 0 ? input : input / 2, weight > 0 ? weight : input / 2, classifier,
                message);
}

}  // namespace ladder
