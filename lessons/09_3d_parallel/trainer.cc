#include "lessons/09_3d_parallel/trainer.h"

#include <algorithm>
#include <cmath>

#include "common/train/prediction.h"
#include "common/train/replicas.h"
#include "common/train/report.h"
#include "kernels/elementwise.h"
#include "lessons/07_tensor_parallel/slices.h"
#include "lessons/09_3d_parallel/no_overlap.h"
#include "lessons/09_3d_parallel/scattered_messages.h"
#include "lessons/13_sequence_parallel/tokens.h"

namespace ladder {

namespace {

constexpr size_t kMostRows = 16;  // of the table of ranks in the header

// Returns the run as it is along the other axes: the tokens that a rank of the context axis has of
// each sequence are all there are.
RunConfig with_tokens_of(size_t context_rank, RunConfig config, const ProcessGrid& grid,
                         const ThreeDFlags& flags) {
  config.model.sequence_length = flags.context.plan(config, grid).num_tokens(context_rank);
  return config;
}

// Returns what a rank has of the plan.
ChunkStage stage_at(const RunConfig& config, const ProcessGrid& grid, const ChunkPlan& plan,
                    const ThreeDFlags& flags) {
  const size_t stage = grid.place(Axis::pipeline);
  const ModelPart split = {.tensor_rank = grid.place(Axis::tensor),
                           .tensor_size = grid.tensor_size,
                           .splits_tokens = flags.sequence_parallel};
  return {plan.of_stage(stage), stage,
          plan.layouts(config.model, stage, split, grid.size(grid.replicas()))};
}

ChunkPlan checked_plan(const RunConfig& config, const ProcessGrid& grid, const ThreeDFlags& flags) {
  check_slices(config.model, grid.tensor_size);
  const size_t last = grid.context_size - 1;  // it has the fewest tokens
  if (flags.sequence_parallel) {
    check_tokens(with_tokens_of(last, config, grid, flags), grid.tensor_size, {});
  }
  const auto bytes = [&](const ChunkPlan& plan, size_t stage, size_t num_slots) {
    size_t most = 0;
    ProcessGrid there = grid;
    for (there.rank = 0; there.rank < grid.world_size(); ++there.rank) {
      if (there.place(Axis::pipeline) != stage || there.place(Axis::data) != 0) continue;
      Rehearsal rehearsal(config, there);
      const ChunkStage at = stage_at(config, there, plan, flags);
      const RankMemory memory(rehearsal.context(), at, flags, num_slots);
      most = std::max(most, rehearsal.device_peak().total());
    }
    return most;
  };
  return plan_chunks(config, grid, flags.pipeline, bytes);
}

// Returns what a rank communicates for the activations of one chunk, besides the messages between
// stages. `own` is the run with this rank's tokens.
TrafficEntries chunk_traffic(const RunConfig& config, const RunConfig& own, const ProcessGrid& grid,
                             const ChunkStage& stage, const Layout& chunk,
                             const ThreeDFlags& flags) {
  const size_t num_micro_batches = config.num_micro_batches(grid.data_size);
  const bool in_halves =
      std::ranges::count(stage.schedule(), ActionKind::backward_weight, &Action::kind) > 0;
  TrafficEntries traffic =
      ring_traffic(config, chunk, flags.context.plan(config, grid), grid, stage.num_slots());
  if (flags.sequence_parallel) {
    traffic.merge(sequence_traffic(own, chunk, num_micro_batches, stage.num_slots(), in_halves));
  } else if (grid.tensor_size > 1) {
    traffic[{Purpose::activation, Collective::all_reduce, Axis::tensor}] =
        tensor_traffic(own, chunk, num_micro_batches, stage.num_slots());
  }
  return traffic;
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

std::unique_ptr<ChunkPipeline> make_pipeline(const TrainerContext& context,
                                             const ThreeDFlags& flags, const ChunkStage& stage,
                                             ChunkRunner& model) {
  if (!flags.scatter_messages) return std::make_unique<ChunkPipeline>(context, stage, model);
  return std::make_unique<ScatteredPipeline>(context, stage, model);
}

TensorParallel points_on(const TrainerContext& context, const ThreeDFlags& flags) {
  Communicator& ranks = context.ranks->on(Axis::tensor);
  const TensorParallel points =
      flags.sequence_parallel ? sequence_parallel_on(ranks) : tensor_parallel_on(ranks);
  return flags.overlaps(Axis::tensor) ? points : without_overlap(points);
}

std::unique_ptr<GradientSync> make_sync(const ThreeDFlags& flags, RankMemory& memory,
                                        Communicator& replicas) {
  auto sync = make_reduced_sync(flags.zero, memory.state, replicas, memory.reduced);
  if (flags.overlaps(Axis::data)) return sync;
  return std::make_unique<LateSync>(std::move(sync));
}

}  // namespace

TrafficEntries ThreeDTrainer::traffic(const RunConfig& config, const ProcessGrid& grid,
                                      const Flags& flags) {
  const ChunkStage stage = stage_at(config, grid, checked_plan(config, grid, flags), flags);
  const Layout& layout = stage.layouts.stage;
  const RunConfig own = with_tokens_of(grid.place(Axis::context), config, grid, flags);
  TrafficEntries traffic = stage.traffic(own, flags.zero.stage == 1);
  if (flags.scatter_messages) scatter_messages(traffic, grid.tensor_size);
  if (grid.size(grid.replicas()) > 1) {
    traffic.merge(
        zero_traffic(flags.zero, layout, grid.replicas(), flags.reduce.of(config), config.dtype));
  }
  if (flags.sequence_parallel) traffic.merge(partial_gradient_traffic(config, layout));
  for (const Layout& chunk : stage.layouts.chunks) {
    for (const auto& [key, of_chunk] : chunk_traffic(config, own, grid, stage, chunk, flags)) {
      traffic[key] += of_chunk;
    }
  }
  // A stage without transformer blocks has nothing to say on some axes.
  std::erase_if(traffic, [](const auto& entry) { return entry.second.calls == 0; });
  return traffic;
}

std::string ThreeDTrainer::describe(const RunConfig& config, const ProcessGrid& grid,
                                    const Flags& flags) {
  const ChunkPlan plan = checked_plan(config, grid, flags);
  draw_schedule(config, plan.pipeline);
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
    const Layout layout = stage_at(config, at, plan, flags).layouts.stage;
    text += format("  %-27s %13s %12s\n", units_text(layout).c_str(),
                   with_commas(layout.num_parameters()).c_str(),
                   human_bytes(predict<ThreeDTrainer>(config, at, flags).device.total()).c_str());
  }
  if (every > 1) text += "  (the first rank of each stage)\n";
  return grid.pipeline_size == 1 ? text : text + stages_text(config, plan.pipeline);
}

RankMemory::RankMemory(const TrainerContext& context, const ChunkStage& stage,
                       const ThreeDFlags& flags, size_t num_slots)
    : tokens(context, flags.context),
      state(context, stage.layouts.stage, context.ranks->replicas().rank(),
            zero_places(flags.zero, context.ranks->registered)),
      model(context, stage.layouts, state, stage.sends(),
            {.num_slots = num_slots,
             .tensor = points_on(context, flags),
             .summed = context.ranks->grid.tensor_size > 1 ? context.ranks->registered : nullptr,
             .part = tokens.part(),
             .context = tokens.attention()}),
      reduced(flags.reduce.make_buffer(context, stage.layouts.stage)) {}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      stage_(stage_at(context.config, context.ranks->grid,
                      checked_plan(context.config, context.ranks->grid, flags), flags)),
      memory_(context, stage_, flags, stage_.num_slots()),
      pipeline_(make_pipeline(context, flags, stage_, memory_.model)),
      share_(context.config, context.ranks->on(Axis::data)),
      sync_(make_sync(flags, memory_, context.ranks->replicas())) {}

StepResult ThreeDTrainer::step() {
  const RunConfig& config = context_.config;
  const auto& [grid, world, groups, registered] = *context_.ranks;
  ModelState& state = memory_.state;
  const double num_tokens = static_cast<double>(config.tokens_per_step());
  ++state.step;
  fill(context_.stream, state.gradients, 0);
  const Hooks hooks = sync_->hooks();
  const auto summed = [&](size_t unit) {
    sync_->wait();  // the sum over replicas comes first, because it overlaps with backward
    return sync_->summed(unit);
  };
  pipeline_->run({.number = state.step,
                  .first_sequence = share_.first(),
                  .token_weight = 1 / num_tokens,
                  .gradient_is_final =
                      [&](size_t unit) { hooks.done({.unit = unit, .gradient_is_final = true}); },
                  .shared_gradient = summed});
  sync_->wait();
  if (state.layout().part().splits_tokens) {
    sum_partial_gradients(context_.stream, state.layout(), state.gradients,
                          (*groups)[Axis::tensor]);
  }
  // Only ranks of the last stage have losses, and all ranks of a tensor group have the same ones.
  // So one rank of each group counts.
  const double own_loss = memory_.model.total_loss();
  const double loss = sum_over(world, grid.place(Axis::tensor) == 0 ? own_loss : 0) / num_tokens;
  // Every parameter counts once: shards over the replicas, slices over the tensor axis, units over
  // the pipeline (Parameter::counted).
  const double norm = std::sqrt(sum_over(world, state.squared_norm()));
  const AdamWStep step = state.optimizer.next_step(norm);
  sync_->update(step);
  return {loss, norm, step.learning_rate};
}

double ThreeDTrainer::evaluate(size_t num_batches) {
  const RunConfig& config = context_.config;
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_->evaluate(batch, share_.first(), share_.num_sequences());
    const double own = memory_.model.total_loss();
    const bool counts = context_.ranks->grid.place(Axis::tensor) == 0;
    total += sum_over(context_.ranks->world, counts ? own : 0);
  }
  return total / static_cast<double>(num_batches * config.tokens_per_step());
}

void ThreeDTrainer::check_replicas() {
  GridGroups& groups = *context_.ranks->groups;
  check_copies(memory_.state, context_.ranks->world,
               {{context_.ranks->replicas()},
                {groups[Axis::tensor], [](const Unit&, const Parameter& p) { return !p.split; }},
                copies_of_shared_units(groups[Axis::embedding])});
}

std::string ThreeDTrainer::report() {
  return context_.ranks->grid.pipeline_size == 1 ? std::string() : pipeline_->report();
}

}  // namespace ladder
