#include "lessons/08_pipeline_parallel/trainer.h"

#include <cmath>

#include "common/train/flags/validators.h"

namespace ladder {

ProcessGrid PipelineTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  check_all_ranks("--pipeline-parallel-size", flags.pipeline_parallel_size, num_ranks);
  return {.pipeline_size = num_ranks, .rank = rank};
}

PipelineTrainer::PipelineTrainer(const TrainerContext& context, const Flags&)
    : context_(context),
      stage_(context.plan, context.config.model, context.ranks->grid.group_rank(Axis::pipeline)),
      state_(context, stage_.layout, 0, {.gradients = {.source = context.ranks->registered}}),
      model_(context, stage_.layout, state_.parameters, state_.gradients,
             {.num_buffers = stage_.num_buffers()}),
      pipeline_(context, stage_.layout, model_, stage_.schedule()) {}

StepResult PipelineTrainer::step() {
  Communicator& world = context_.ranks->world;
  ++state_.step;
  const double num_tokens = model_.counted_tokens(Split::train, state_.step);
  state_.clear_gradients();
  pipeline_.run(
      {.number = state_.step, .token_weight = 1 / num_tokens, .gradients = state_.gradients});
  const double loss = sum_over(world, model_.total_loss()) / num_tokens;  // only the last has any
  const double norm = std::sqrt(sum_over(world, state_.squared_norm()));
  return {loss, norm, state_.update(norm)};
}

double PipelineTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(batch, config.global_batch_size);
    total += sum_over(context_.ranks->world, model_.total_loss());
  }
  return total / model_.counted_in_validation(num_batches);
}

std::string PipelineTrainer::report() {
  return bubble_text(*stage_.plan, times_of_stages(context_.ranks->world, pipeline_.times()));
}

}  // namespace ladder
