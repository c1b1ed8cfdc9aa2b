#include "lessons/09_3d_parallel/trainer.h"

#include <cmath>

#include "common/train/report.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/07_tensor_parallel/slices.h"

namespace ladder {
namespace {

PipelinePlan plan_of(const RunConfig& config, const ProcessGrid& grid,
                     const ThreeDTrainer::Flags& flags) {
  return plan_pipeline(config, grid, flags.pipeline);
}

Layout layout_of(const RunConfig& config, const ProcessGrid& grid, const PipelinePlan& plan) {
  check_slices(config.model, grid.tensor_size);
  ModelPart part = plan.parts[grid.pipeline_rank()];
  part.tensor_rank = grid.tensor_rank();
  part.tensor_size = grid.tensor_size;
  return Layout(config.model, grid.data_size, part);
}

StateShare share_of(const Layout& layout, const ThreeDTrainer::Flags& flags,
                    MemorySource* registered) {
  StateShare share = StateShare::whole(layout);
  share.gradients.source = registered;
  if (flags.zero_stage == 1) {
    share.parameters.source = registered;
    share.moment = StateShare::shards(layout).moment;
  }
  return share;
}

}  // namespace

void ThreeDTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "3D parallel";
  app.add_option("--tensor-parallel-size", tensor_parallel_size,
                 "Ranks that split every large weight [1]")
      ->check(whole(1, 1'000'000))
      ->group(group);
  app.add_option("--zero-stage", zero_stage,
                 "What data-parallel ranks share: 0 nothing, 1 the optimizer's state [0]")
      ->check(whole(0, 1))
      ->group(group);
  app.add_option("--bucket-bytes", bucket_bytes,
                 "Gradients are reduced in buckets of at least this size [25MiB]")
      ->transform(byte_size())
      ->group(group);
  pipeline.add_to(app);
}

ProcessGrid ThreeDTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t tensor = flags.tensor_parallel_size;
  const size_t pipeline = std::max<size_t>(flags.pipeline.pipeline_parallel_size, 1);
  if (num_ranks % (tensor * pipeline) != 0) {
    throw UserError(concat("--tensor-parallel-size ", tensor, " times --pipeline-parallel-size ",
                           pipeline, " does not divide the ", num_ranks, " ranks; ",
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
  const PipelinePlan plan = plan_of(config, grid, flags);
  const Layout layout = layout_of(config, grid, plan);
  const StageSchedule& stage = plan.schedule[grid.pipeline_rank()];
  const size_t micro_batches = config.num_micro_batches(grid.data_size);
  Prediction prediction =
      Replica::predict(config, layout, share_of(layout, flags, nullptr), num_slots(stage));
  size_t& host = prediction.host[Category::workspace];
  host += SliceCollector::num_bytes(layout, config.dtype);
  host += StageCollector::num_bytes(config, plan.parts, grid);

  auto& traffic = prediction.step;
  add_pipeline_traffic(
      prediction, config, stage,
      flags.zero_stage == 1 ? shard_elements(layout, 0) : layout.unit(0).padded_elements);
  if (grid.tensor_size > 1) {
    traffic[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        tensor_traffic(config, layout, micro_batches);
  }
  const Traffic all_units = traffic_of_all_units(layout, config.dtype);
  if (flags.zero_stage == 1) {
    host += ShardCollector::num_bytes(layout, config.dtype, grid.data_rank());
  }
  if (grid.data_size > 1 && flags.zero_stage == 1) {
    traffic[{Purpose::gradient, Collective::reduce_scatter, Axis::data}] = all_units;
    traffic[{Purpose::parameter, Collective::all_gather, Axis::data}] = all_units;
  } else if (grid.data_size > 1) {
    traffic[{Purpose::gradient, Collective::all_reduce, Axis::data}] = {
        .calls = make_buckets(layout, config.dtype, flags.bucket_bytes).size(),
        .payload_bytes = all_units.payload_bytes};
  }
  return prediction;
}

std::string ThreeDTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  const PipelinePlan plan = plan_of(config, grid, flags);
  std::string text = format("  grid     %zu pipeline x %zu data x %zu tensor\n", grid.pipeline_size,
                            grid.data_size, grid.tensor_size);
  text += format("  %4s %8s %5s %6s  %-24s %16s %12s\n", "rank", "pipeline", "data", "tensor",
                 "holds", "parameters", "memory");
  for (size_t rank = 0; rank < grid.world_size(); ++rank) {
    ProcessGrid at = grid;
    at.rank = rank;
    const Layout layout = layout_of(config, at, plan);
    text += format("  %4zu %8zu %5zu %6zu  %-24s %16s %12s\n", rank, at.pipeline_rank(),
                   at.data_rank(), at.tensor_rank(), units_text(layout).c_str(),
                   with_commas(layout.num_parameters()).c_str(),
                   human_bytes(predict(config, at, flags).device.total()).c_str());
  }
  return text + (grid.pipeline_size > 1 ? stages_text(config, plan) : "");
}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags)
    : ThreeDTrainer(
          context, flags, plan_of(context.config, context.grid, flags),
          layout_of(context.config, context.grid, plan_of(context.config, context.grid, flags))) {
  const std::string& path = flags.pipeline.draw;
  if (!path.empty() && context.grid.rank == 0) write_drawing(path, plan_);
}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags, PipelinePlan plan,
                             const Layout& layout)
    : plan_(std::move(plan)),
      replica_(context, layout, share_of(layout, flags, context.registered),
               num_slots(plan_.schedule[context.grid.pipeline_rank()])),
      pipeline_(replica_, *context.groups, plan_.schedule[context.grid.pipeline_rank()]),
      first_row_(context.grid.data_rank() * context.config.global_batch_size /
                 context.grid.data_size),
      slices_(context, layout),
      stages_(context, plan_.parts) {
  Communicator& data = context.groups->data();
  if (flags.zero_stage == 1) {
    scatter_.emplace(replica_, data);
    shards_.emplace(replica_, data);
  } else {
    reducer_.emplace(replica_.gradients, data,
                     make_buckets(replica_.layout, context.config.dtype, flags.bucket_bytes), true);
  }
}

StepResult ThreeDTrainer::step() {
  const RunConfig& config = replica_.context.config;
  Stream& stream = replica_.context.stream;
  Communicator& world = *replica_.context.world;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++step_;
  fill(stream, replica_.gradients, 0);
  pipeline_.run({.number = step_,
                 .first_row = first_row_,
                 .loss_scale = 1 / num_tokens,
                 .last_backward = reducer_ ? reducer_->hooks(stream) : scatter_->hooks(stream),
                 .reduce_embedding = [&] { reduce_embedding(); }});
  reduce_data();
  // All ranks of a tensor group have the loss, ranks of the last stage alone.
  const double own_loss = replica_.losses.total();
  const double loss =
      sum_over(world, replica_.context.grid.tensor_rank() == 0 ? own_loss : 0) / num_tokens;
  // Every parameter counts once: shards over the data axis, slices over the tensor axis, units over
  // the pipeline (Parameter::counted).
  const double norm = std::sqrt(sum_over(world, replica_.squared_norm()));
  const AdamWStep update = adamw_step(config.optimizer, step_, norm);
  if (scatter_) {
    update_and_gather(replica_, replica_.context.groups->data(), update);
  } else {
    replica_.update(update);
  }
  return {loss, norm, update.learning_rate};
}

void ThreeDTrainer::reduce_data() {
  Stream& stream = replica_.context.stream;
  reducer_ ? reducer_->wait(stream) : scatter_->wait(stream);
}

void ThreeDTrainer::reduce_embedding() {
  reduce_data();
  Stream& stream = replica_.context.stream;
  const size_t wte = replica_.layout.token_embedding();
  const TensorView own =
      scatter_ ? replica_.shard(TensorKind::grad, wte)
               : replica_.gradients.view().rows(0, replica_.layout.unit(wte).padded_elements);
  replica_.context.groups->embedding()
      .all_reduce(stream, own, {.purpose = Purpose::gradient})
      .wait(stream);
}

double ThreeDTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = replica_.context.config;
  const ProcessGrid& grid = replica_.context.grid;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(static_cast<int64_t>(batch), first_row_,
                       config.global_batch_size / grid.data_size);
    const double own = replica_.losses.total();
    total += sum_over(*replica_.context.world, grid.tensor_rank() == 0 ? own : 0);
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void ThreeDTrainer::visit(TensorKind kind, const TensorSink& sink) {
  const ProcessGrid& grid = replica_.context.grid;
  const auto visit_own = [&](const TensorSink& own) {
    const TensorSink full = slices_.joined(own);
    if (shards_) return shards_->visit(kind, full);
    if (grid.data_rank() == 0) replica_.visit(kind, full);
  };
  if (grid.data_rank() == 0 && grid.tensor_rank() == 0) return stages_.visit(visit_own, sink);
  visit_own([](const Parameter&, ConstTensorView) {});
}

void ThreeDTrainer::check_replicas() {
  GridGroups& groups = *replica_.context.groups;
  check_copies(replica_, groups.data());
  check_copies(replica_, groups.tensor(), [](const Parameter& p) { return !p.split; });
  if (!replica_.layout.is_token_embedding(0)) return;
  check_copies(replica_, groups.embedding(),
               [](const Parameter& p) { return p.name == "wte.weight"; });
}

std::string ThreeDTrainer::report() {
  if (replica_.context.grid.pipeline_size == 1) return {};
  const size_t micro_batches =
      replica_.context.config.num_micro_batches(replica_.context.grid.data_size);
  return bubble_text(replica_.context.groups->activations(), plan_, pipeline_.times(),
                     micro_batches);
}

}  // namespace ladder
