#include "lessons/08_pipeline_parallel/trainer.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "lessons/02_ddp/data_parallel.h"

namespace ladder {
namespace {

// First and last stage sum the token embedding's gradient where it lies.
StateShare share_of(const Layout& layout, MemorySource* registered) {
  StateShare share = StateShare::whole(layout);
  share.gradients.source = registered;
  return share;
}

Layout layout_of(const RunConfig& config, const ProcessGrid& grid, const PipelinePlan& plan) {
  return Layout(config.model, 1, plan.parts[grid.pipeline_rank()]);
}

}  // namespace

ProcessGrid PipelineTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t size = flags.pipeline_parallel_size > 0 ? flags.pipeline_parallel_size : num_ranks;
  if (size != num_ranks) {
    throw UserError(concat("--pipeline-parallel-size ", size, " on ", num_ranks,
                           num_ranks == 1 ? " rank" : " ranks", "; start ", size,
                           " of them, or take 09_3d_parallel, which splits the batch too"));
  }
  return {.pipeline_size = size, .rank = rank};
}

Prediction PipelineTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  const PipelinePlan plan = plan_pipeline(config, grid, flags);
  const Layout layout = layout_of(config, grid, plan);
  const StageSchedule& stage = plan.schedule[grid.pipeline_rank()];
  Prediction prediction =
      Replica::predict(config, layout, StateShare::whole(layout), num_slots(stage));
  prediction.host[Category::workspace] += StageCollector::num_bytes(config, plan.parts, grid);
  add_pipeline_traffic(prediction, config, stage, layout.unit(0).padded_elements);
  return prediction;
}

PipelineTrainer::PipelineTrainer(const TrainerContext& context, const Flags& flags)
    : PipelineTrainer(context, plan_pipeline(context.config, context.grid, flags),
                      layout_of(context.config, context.grid,
                                plan_pipeline(context.config, context.grid, flags))) {
  if (!flags.draw.empty() && context.grid.rank == 0) write_drawing(flags.draw, plan_);
}

PipelineTrainer::PipelineTrainer(const TrainerContext& context, PipelinePlan plan,
                                 const Layout& layout)
    : plan_(std::move(plan)),
      replica_(context, layout, share_of(layout, context.registered),
               num_slots(plan_.schedule[context.grid.pipeline_rank()])),
      pipeline_(replica_, *context.groups, plan_.schedule[context.grid.pipeline_rank()]),
      collector_(context, plan_.parts) {}

StepResult PipelineTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Communicator& world = *replica_.context.world;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(replica_.context.stream, replica_.gradients, 0);
  pipeline_.run({.number = step_,
                 .first_row = 0,
                 .loss_scale = 1 / num_tokens,
                 .last_backward = {},
                 .reduce_embedding = [&] { reduce_embedding(); }});
  const double loss = sum_over(world, replica_.losses.total()) / num_tokens;  // of the last stage
  const double norm = std::sqrt(sum_over(world, replica_.squared_norm()));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  replica_.update(update);
  return {loss, norm, update.learning_rate};
}

// The token embedding is used at both ends of the model: the sum of the two gradients updates both
// copies alike.
void PipelineTrainer::reduce_embedding() {
  Stream& stream = replica_.context.stream;
  const Unit& wte = replica_.layout.unit(replica_.layout.token_embedding());
  replica_.context.groups->embedding()
      .all_reduce(stream, replica_.gradients.view().rows(wte.offset, wte.padded_elements),
                  {.purpose = Purpose::gradient})
      .wait(stream);
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

void PipelineTrainer::check_replicas() {
  if (!replica_.layout.is_token_embedding(0)) return;
  check_copies(replica_, replica_.context.groups->embedding(),
               [](const Parameter& parameter) { return parameter.name == "wte.weight"; });
}

std::string PipelineTrainer::report() {
  return bubble_text(*replica_.context.world, plan_, pipeline_.times(),
                     replica_.context.config.num_micro_batches(1));
}

}  // namespace ladder
