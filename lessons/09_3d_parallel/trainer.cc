#include "lessons/09_3d_parallel/trainer.h"

#include <cmath>

#include "common/train/prediction.h"
#include "common/train/replicas.h"
#include "common/train/report.h"
#include "common/train/validators.h"
#include "kernels/elementwise.h"
#include "lessons/07_tensor_parallel/slices.h"
#include "lessons/13_sequence_parallel/tokens.h"

namespace ladder {

namespace {

constexpr size_t kMostRows = 16;  // of the table of ranks in the header

// Returns the run as it is along the other axes: the tokens that a rank of the context axis has of
// each sequence are all there are.
RunConfig with_tokens_of(size_t context_rank, RunConfig config, const ProcessGrid& grid,
                         const ThreeDTrainer::Flags& flags) {
  config.model.sequence_length = flags.context.plan(config, grid).num_tokens(context_rank);
  return config;
}

Stage checked_stage(const RunConfig& config, const ProcessGrid& grid,
                    const ThreeDTrainer::Flags& flags) {
  check_slices(config.model, grid.tensor_size);
  Stage stage(config, grid, flags.pipeline);
  const size_t last = grid.context_size - 1;  // it has the fewest tokens
  if (flags.sequence_parallel) {
    check_tokens(with_tokens_of(last, config, grid, flags), grid.tensor_size, {});
  }
  ModelPart part = stage.layout.part();
  part.splits_tokens = flags.sequence_parallel;
  stage.layout = Layout(config.model, grid.size(grid.replicas()), part);
  return stage;
}

// Calls body(axis, name, column width) for the axes of the grid. Most grids have no context axis.
template <class Body>
void for_axes(const ProcessGrid& grid, Body body) {
  for (Axis axis : kGridAxes) {
    if (axis == Axis::context && grid.context_size == 1) continue;
    const std::string name(name_of(axis));
    body(axis, name, std::max(5, static_cast<int>(name.size())));
  }
}

TensorParallel points_on(Communicator& ranks, const ThreeDTrainer::Flags& flags) {
  return flags.sequence_parallel ? sequence_parallel_on(ranks) : tensor_parallel_on(ranks);
}

}  // namespace

void ThreeDTrainer::Flags::add_to(CLI::App& app) {
  const char* const group = "3D parallel";
  app.add_option("--tensor-parallel-size", tensor_parallel_size,
                 "Ranks that split every large weight [1]")
      ->check(whole(1, 1'000'000))
      ->group(group);
  app.add_flag("--sequence-parallel", sequence_parallel,
               "These ranks also split the tokens where they do not split weights")
      ->group(group);
  context.add_to(app, group, "1");
  zero.add_to(app, group);
  pipeline.add_to(app);
}

ProcessGrid ThreeDTrainer::arrange(const Flags& flags, size_t num_ranks, size_t rank) {
  const size_t tensor = flags.tensor_parallel_size;
  const size_t context = std::max<size_t>(flags.context.size, 1);
  const size_t pipeline = std::max<size_t>(flags.pipeline.pipeline_parallel_size, 1);
  const size_t replica = tensor * context * pipeline;
  if (num_ranks % replica != 0) {
    throw UserError(concat(
        "--tensor-parallel-size ", tensor, " times ",
        context > 1 ? concat("--context-parallel-size ", context, " times ") : std::string(),
        "--pipeline-parallel-size ", pipeline, " does not divide ", counted(num_ranks, "rank"),
        "; ", (num_ranks / replica + 1) * replica, " ranks would do"));
  }
  if (flags.sequence_parallel && tensor == 1) {
    throw UserError(
        "--sequence-parallel: --tensor-parallel-size 1 has nobody to split with; 2 would do");
  }
  return {.pipeline_size = pipeline,
          .data_size = num_ranks / replica,
          .context_size = context,
          .tensor_size = tensor,
          .rank = rank};
}

TrafficEntries ThreeDTrainer::traffic(const RunConfig& config, const ProcessGrid& grid,
                                      const Flags& flags) {
  const Stage stage = checked_stage(config, grid, flags);
  const RunConfig own = with_tokens_of(grid.place(Axis::context), config, grid, flags);
  const size_t num_micro_batches = config.num_micro_batches(grid.data_size);
  TrafficEntries traffic =
      pipeline_traffic(own, stage.layout, stage.schedule(), flags.zero.stage == 1);
  traffic.merge(ring_traffic(config, stage.layout, flags.context.plan(config, grid), grid,
                             stage.num_slots()));
  if (grid.size(grid.replicas()) > 1) {
    traffic.merge(zero_traffic(flags.zero, stage.layout, grid.replicas(), config.accumulation(),
                               config.dtype));
  }
  if (grid.tensor_size > 1 && flags.sequence_parallel) {
    traffic.merge(sequence_traffic(own, stage.layout, num_micro_batches, stage.num_slots()));
  } else if (grid.tensor_size > 1) {
    traffic[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        tensor_traffic(own, stage.layout, num_micro_batches, stage.num_slots());
  }
  return traffic;
}

std::string ThreeDTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  std::string sizes, heads;
  for_axes(grid, [&](Axis axis, const std::string& name, int width) {
    sizes += concat(sizes.empty() ? "" : " x ", grid.size(axis), " ", name);
    heads += format(" %*s", width, name.c_str());
  });
  std::string text = concat("  grid     ", sizes, "\n  rank", heads);
  text += format("  %-27s %13s %12s\n", "holds", "parameters", "memory");
  // All ranks of a stage hold as much, so its first tells enough where there are many.
  const size_t num_ranks = grid.world_size();
  const size_t every = num_ranks > kMostRows ? num_ranks / grid.pipeline_size : 1;
  for (size_t rank = 0; rank < num_ranks; rank += every) {
    ProcessGrid at = grid;
    at.rank = rank;
    text += format("  %4zu", rank);
    for_axes(at, [&](Axis axis, const std::string&, int width) {
      text += format(" %*zu", width, at.place(axis));
    });
    const Layout layout = checked_stage(config, at, flags).layout;
    text += format("  %-27s %13s %12s\n", units_text(layout).c_str(),
                   with_commas(layout.num_parameters()).c_str(),
                   human_bytes(predict<ThreeDTrainer>(config, at, flags).device.total()).c_str());
  }
  if (every > 1) text += "  (the first rank of each stage)\n";
  const std::string stages = describe_pipeline(config, grid, flags.pipeline);
  return grid.pipeline_size == 1 ? text : text + stages;
}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      stage_(checked_stage(context.config, context.ranks->grid, flags)),
      tokens_(context, flags.context),
      state_(context, stage_.layout, context.ranks->replicas().rank(),
             zero_places(flags.zero, context.ranks->registered)),
      model_(context, stage_.layout, state_.parameters, state_.gradients,
             {.num_slots = stage_.num_slots(),
              .tensor = points_on(context.ranks->on(Axis::tensor), flags),
              .summed = context.ranks->grid.tensor_size > 1 ? context.ranks->registered : nullptr,
              .part = tokens_.part(),
              .context = tokens_.attention()}),
      pipeline_(context, stage_.layout, model_, stage_.schedule()),
      share_(context.config, context.ranks->on(Axis::data)),
      sync_(make_zero_sync(flags.zero, state_, context.ranks->replicas())) {}

StepResult ThreeDTrainer::step() {
  const RunConfig& config = context_.config;
  const auto& [grid, world, groups, registered] = *context_.ranks;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++state_.step;
  fill(context_.stream, state_.gradients, 0);
  const auto summed = [&](size_t unit) {
    sync_->wait();  // the sum over replicas comes first, because it overlaps with backward
    return sync_->summed(unit);
  };
  pipeline_.run({.number = state_.step,
                 .first_sequence = share_.first(),
                 .token_weight = 1 / num_tokens,
                 .last_backward = sync_->hooks(),
                 .shared_gradient = summed});
  sync_->wait();
  if (stage_.layout.part().splits_tokens) {
    sum_partial_gradients(context_.stream, stage_.layout, state_.gradients,
                          (*groups)[Axis::tensor]);
  }
  // Only ranks of the last stage have losses, and all ranks of a tensor group have the same ones.
  // So one rank of each group counts.
  const double own_loss = model_.total_loss();
  const double loss = sum_over(world, grid.place(Axis::tensor) == 0 ? own_loss : 0) / num_tokens;
  // Every parameter counts once: shards over the replicas, slices over the tensor axis, units over
  // the pipeline (Parameter::counted).
  const double norm = std::sqrt(sum_over(world, state_.squared_norm()));
  const AdamWStep step = state_.optimizer.next_step(norm);
  sync_->update(step);
  return {loss, norm, step.learning_rate};
}

double ThreeDTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_.evaluate(batch, share_.first(), share_.num_sequences());
    const double own = model_.total_loss();
    const bool counts = context_.ranks->grid.place(Axis::tensor) == 0;
    total += sum_over(context_.ranks->world, counts ? own : 0);
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void ThreeDTrainer::check_replicas() {
  GridGroups& groups = *context_.ranks->groups;
  check_copies(state_, context_.ranks->world,
               {{context_.ranks->replicas()},
                {groups[Axis::tensor], [](const Unit&, const Parameter& p) { return !p.split; }},
                copies_of_shared_units(groups[Axis::embedding])});
}

std::string ThreeDTrainer::report() {
  const ProcessGrid& grid = context_.ranks->grid;
  if (grid.pipeline_size == 1) return {};
  Communicator& stages = context_.ranks->on(Axis::pipeline);
  return bubble_text(stage_.plan, times_of_stages(stages, pipeline_.times()));
}

}  // namespace ladder
