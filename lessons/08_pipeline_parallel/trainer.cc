#include "lessons/08_pipeline_parallel/trainer.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "lessons/02_ddp/data_parallel.h"

namespace ladder {
namespace {

Layout layout_of(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags) {
  return Layout(config.model, 1,
                stages_of(config.model, grid.pipeline_size, flags)[grid.pipeline_rank()]);
}

Schedule schedule_of(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags) {
  return make_schedule(flags.schedule, grid.pipeline_size, config.num_micro_batches(1));
}

// First and last stage sum the token embedding's gradient where it lies.
StateShare share_of(const Layout& layout, MemorySource* registered) {
  StateShare share = StateShare::whole(layout);
  share.gradients.source = registered;
  return share;
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
  const Layout layout = layout_of(config, grid, flags);
  const StageSchedule stage = schedule_of(config, grid, flags)[grid.pipeline_rank()];
  Prediction prediction =
      Replica::predict(config, layout, StateShare::whole(layout), num_slots(stage));
  prediction.host[Category::workspace] +=
      StageCollector::num_bytes(config, stages_of(config.model, grid.pipeline_size, flags), grid);
  add_messages(prediction, config, stage);
  if (grid.pipeline_size > 1 && layout.is_token_embedding(0)) {
    prediction.step[{Purpose::gradient, Collective::all_reduce, Axis::embedding}] = {
        .calls = 1, .payload_bytes = layout.unit(0).padded_elements * size_of(config.dtype)};
  }
  return prediction;
}

PipelineTrainer::PipelineTrainer(const TrainerContext& context, const Flags& flags)
    : flags_(flags),
      schedule_(schedule_of(context.config, context.grid, flags)),
      replica_(context, layout_of(context.config, context.grid, flags),
               share_of(layout_of(context.config, context.grid, flags), context.registered),
               num_slots(schedule_[context.grid.pipeline_rank()])),
      pipeline_(replica_, *context.groups, schedule_[context.grid.pipeline_rank()]),
      collector_(context, stages_of(context.config.model, context.grid.pipeline_size, flags)) {
  draw_pipeline(context.config, context.grid, flags);
}

StepResult PipelineTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  pipeline_.run({.number = step_,
                 .first_row = 0,
                 .loss_scale = 1 / num_tokens,
                 .last_backward = {},
                 .reduce_embedding = [&] {
                   // Its gradient comes from both ends of the model; the sum updates both copies.
                   const Unit& wte = replica_.layout.unit(replica_.layout.token_embedding());
                   replica_.context.groups->embedding()
                       .all_reduce(stream, replica_.gradients.view().rows(0, wte.padded_elements),
                                   {.purpose = Purpose::gradient})
                       .wait(stream);
                 }});
  Communicator& stages = *replica_.context.world;
  const double loss = sum_over(stages, replica_.losses.total()) / num_tokens;  // of the last stage
  const double norm = std::sqrt(sum_over(stages, replica_.squared_norm()));
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

void PipelineTrainer::visit(TensorKind kind, const TensorSink& sink) {
  collector_.visit([&](const TensorSink& own) { replica_.visit(kind, own); }, sink);
}

void PipelineTrainer::check_replicas() {
  if (!replica_.layout.is_token_embedding(0)) return;
  check_copies(replica_, replica_.context.groups->embedding(),
               [](const Parameter& parameter) { return parameter.name == "wte.weight"; });
}

std::string PipelineTrainer::report() {
  return bubble_report(*replica_.context.world, schedule_, flags_.schedule, pipeline_.times(),
                       replica_.context.config.num_micro_batches(1));
}

}  // namespace ladder
