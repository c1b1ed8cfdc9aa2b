#include "lessons/09_3d_parallel/trainer.h"

#include <cmath>

#include "common/train/report.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"
#include "lessons/07_tensor_parallel/slices.h"

namespace ladder {

void ThreeDTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "3D parallel";
  app.add_option("--tensor-parallel-size", tensor_parallel_size,
                 "Ranks that split every large weight [1]")
      ->check(whole(1, 1'000'000))
      ->group(group);
  zero.add_to(app, group);
  pipeline.add_to(app);
}

ProcessGrid ThreeDTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t tensor = flags.tensor_parallel_size;
  const size_t pipeline = std::max<size_t>(flags.pipeline.pipeline_parallel_size, 1);
  if (num_ranks % (tensor * pipeline) != 0) {
    throw UserError(concat("--tensor-parallel-size ", tensor, " times --pipeline-parallel-size ",
                           pipeline, " does not divide ", counted(num_ranks, "rank"), "; ",
                           (num_ranks / (tensor * pipeline) + 1) * tensor * pipeline,
                           " ranks would do"));
  }
  return {.pipeline_size = pipeline,
          .data_size = num_ranks / (tensor * pipeline),
          .tensor_size = tensor,
          .rank = rank};
}

Prediction ThreeDTrainer::predict(const RunConfig& config, const ProcessGrid& grid,
                                  const Flags& flags) {
  check_slices(config.model, grid.tensor_size);
  const Stage stage(config, grid, flags.pipeline);
  const Layout& layout = stage.layout;
  Prediction prediction =
      Replica::predict(config, layout, share_of(layout, flags.zero, nullptr), stage.num_slots());
  size_t& host = prediction.host[Category::workspace];
  host += SliceCollector::num_bytes(layout, config.dtype);
  host += StageCollector::num_bytes(config, stage.plan.parts, grid);
  add_pipeline_traffic(
      prediction, config, stage.schedule(),
      flags.zero.stage == 1 ? shard_elements(layout, 0) : layout.unit(0).padded_elements);
  if (grid.tensor_size > 1) {
    prediction.step[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        tensor_traffic(config, layout, config.num_micro_batches(grid.data_size));
  }
  ZeroStage::add_to(prediction, config, grid, layout, flags.zero, Axis::data,
                    config.accumulation());
  return prediction;
}

std::string ThreeDTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  std::string text = format("  grid     %zu pipeline x %zu data x %zu tensor\n", grid.pipeline_size,
                            grid.data_size, grid.tensor_size);
  text += format("  %4s %8s %5s %6s  %-24s %16s %12s\n", "rank", "pipeline", "data", "tensor",
                 "holds", "parameters", "memory");
  for (size_t rank = 0; rank < grid.world_size(); ++rank) {
    ProcessGrid at = grid;
    at.rank = rank;
    const Layout layout = Stage(config, at, flags.pipeline).layout;
    text += format("  %4zu %8zu %5zu %6zu  %-24s %16s %12s\n", rank, at.pipeline_rank(),
                   at.data_rank(), at.tensor_rank(), units_text(layout).c_str(),
                   with_commas(layout.num_parameters()).c_str(),
                   human_bytes(predict(config, at, flags).device.total()).c_str());
  }
  if (grid.pipeline_size == 1) return text;
  return text + stages_text(config, plan_pipeline(config, grid, flags.pipeline));
}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags, Stage stage)
    : stage_(std::move(stage)),
      replica_(context, stage_.layout, share_of(stage_.layout, flags.zero, context.registered),
               stage_.num_slots()),
      pipelines_(replica_, context.groups->data()),
      pipeline_(replica_, *context.groups, stage_.schedule()),
      zero_(replica_, context.groups->data(), flags.zero),
      slices_(context, stage_.layout),
      stages_(context, stage_.plan.parts) {
  const std::string& path = flags.pipeline.draw;
  if (!path.empty() && context.grid.rank == 0) write_drawing(path, stage_.plan);
}

StepResult ThreeDTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  Communicator& world = *replica_.context.world;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  pipeline_.run({.number = step_,
                 .first_row = pipelines_.first_row(),
                 .loss_scale = 1 / num_tokens,
                 .last_backward = zero_.hooks(stream),
                 .reduce_embedding = [&] {
                   zero_.wait(stream);  // the data axis' sum first: buckets hide behind backward
                   reduce_embedding(replica_,
                                    zero_.summed_gradient(replica_.layout.token_embedding()));
                 }});
  zero_.wait(stream);
  // All ranks of a tensor group have the loss, ranks of the last stage alone.
  const double own_loss = replica_.losses.total();
  const double loss =
      sum_over(world, replica_.context.grid.tensor_rank() == 0 ? own_loss : 0) / num_tokens;
  // Every parameter counts once: shards over the data axis, slices over the tensor axis, units over
  // the pipeline (Parameter::counted).
  const double norm = std::sqrt(sum_over(world, replica_.squared_norm()));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  zero_.update(update);
  return {loss, norm, update.learning_rate};
}

double ThreeDTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = replica_.context.config;
  const ProcessGrid& grid = replica_.context.grid;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(static_cast<int64_t>(batch), pipelines_.first_row(), pipelines_.num_rows());
    const double own = replica_.losses.total();
    total += sum_over(*replica_.context.world, grid.tensor_rank() == 0 ? own : 0);
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void ThreeDTrainer::visit(TensorKind kind, const TensorSink& sink) {
  const ProcessGrid& grid = replica_.context.grid;
  const auto visit_own = [&](const TensorSink& own) { zero_.visit(kind, slices_.joined(own)); };
  if (grid.data_rank() == 0 && grid.tensor_rank() == 0) return stages_.visit(visit_own, sink);
  visit_own([](const Parameter&, ConstTensorView) {});
}

void ThreeDTrainer::check_replicas() {
  GridGroups& groups = *replica_.context.groups;
  check_copies(replica_, {{groups.data()},
                          {groups.tensor(), [](const Parameter& p) { return !p.split; }},
                          embedding_copies(groups)});
}

std::string ThreeDTrainer::report() {
  if (replica_.context.grid.pipeline_size == 1) return {};
  const size_t micro_batches =
      replica_.context.config.num_micro_batches(replica_.context.grid.data_size);
  Communicator& stages = replica_.context.groups->activations();
  return bubble_text(stage_.plan, times_of_stages(stages, pipeline_.times()), micro_batches);
}

}  // namespace ladder
