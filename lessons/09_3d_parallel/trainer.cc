#include "lessons/09_3d_parallel/trainer.h"

#include <algorithm>
#include <cmath>

#include "common/train/program/prediction.h"
#include "common/train/report/report.h"
#include "common/train/trainer/replicas.h"
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
PipelineStage stage_at(const RunConfig& config, const ProcessGrid& grid, const ThreeDFlags& flags,
                       const SharedPlan& plan) {
  const ModelPartition split = {.tensor_rank = grid.group_rank(Axis::tensor),
                                .tensor_size = grid.tensor_size,
                                .splits_tokens = flags.sequence_parallel};
  return {plan, config.model, grid.group_rank(Axis::pipeline), split, grid.size(grid.replicas())};
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

std::unique_ptr<PipelineExecutor> make_pipeline(const TrainerContext& context,
                                                const ThreeDFlags& flags,
                                                const PipelineStage& stage, ModelRunner& model) {
  if (!flags.scatter_messages) return std::make_unique<PipelineExecutor>(context, stage, model);
  return std::make_unique<ScatteredPipeline>(context, stage, model);
}

TensorParallel points_on(const TrainerContext& context, const ThreeDFlags& flags) {
  Communicator& ranks = context.ranks->on(Axis::tensor);
  const TensorParallel points =
      flags.sequence_parallel ? sequence_parallel_on(ranks) : tensor_parallel_on(ranks);
  return flags.overlaps(Axis::tensor) ? points : without_overlap(points);
}

std::unique_ptr<GradientSync> make_sync(const ThreeDFlags& flags, ModelState& state,
                                        Communicator& replicas, TensorView reduced) {
  auto sync = make_reduced_sync(flags.zero, state, replicas, reduced);
  if (flags.overlaps(Axis::data)) return sync;
  return std::make_unique<LateSync>(std::move(sync));
}

// Returns the ranks of this stage, if Muon has to bring shards of slices together, or null.
std::unique_ptr<Communicator> ranks_of_stage(const TrainerContext& context,
                                             const ThreeDFlags& flags) {
  const ProcessGrid& grid = context.ranks->grid;
  const bool is_muon = context.config.optimizer.name == "muon";
  if (!is_muon || flags.zero.stage == 0 || grid.tensor_size == 1) return nullptr;
  return context.ranks->world.split_axis(Axis::stage, grid.group(Axis::stage).color);
}

// Returns where the state's buffers are, and the ranks that have parts of a weight.
ModelState::Storages storages_for(const TrainerContext& context, const ThreeDFlags& flags,
                                  Communicator* stage_ranks) {
  const RankContext& ranks = *context.ranks;
  Communicator& sharing = stage_ranks == nullptr ? ranks.replicas() : *stage_ranks;
  ModelState::Storages storages = zero_storages(flags.zero, ranks.registered, {.all = &sharing});
  if (flags.zero.stage == 0) storages.muon.all = &ranks.on(Axis::tensor);
  return storages;
}

}  // namespace

SharedPlan ThreeDTrainer::plan(const Flags& flags, const RunConfig& config,
                               const ProcessGrid& grid) {
  check_slices(config.model, grid.tensor_size);
  const size_t last = grid.context_size - 1;  // it has the fewest tokens
  if (flags.sequence_parallel) {
    check_tokens(with_tokens_of(last, config, grid, flags), grid.tensor_size, {});
  }
  return plan_schedule(config, grid, flags.pipeline, [&](const SharedPlan& plan, size_t stage) {
    size_t most = 0;
    ProcessGrid there = grid;
    for (there.rank = 0; there.rank < grid.world_size(); ++there.rank) {
      if (there.group_rank(Axis::pipeline) != stage || there.group_rank(Axis::data) != 0) continue;
      most = std::max(most, device_bytes<ThreeDTrainer>(config, there, flags, plan));
    }
    return most;
  });
}

std::string ThreeDTrainer::describe(const Flags& flags, const RunConfig& config,
                                    const ProcessGrid& grid, const SharedPlan& plan) {
  draw_schedule(config, *plan);
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
      text += format(" %*zu", width, at.group_rank(axis));
    });
    const Layout layout = stage_at(config, at, flags, plan).layout;
    text += format("  %-27s %13s %12s\n", units_text(layout).c_str(),
                   with_commas(layout.num_parameters()).c_str(),
                   human_bytes(device_bytes<ThreeDTrainer>(config, at, flags, plan)).c_str());
  }
  if (every > 1) text += "  (the first rank of each stage)\n";
  return grid.pipeline_size == 1 ? text : text + stages_text(config, *plan);
}

ThreeDTrainer::ThreeDTrainer(const TrainerContext& context, const Flags& flags)
    : context_(context),
      stage_(stage_at(context.config, context.ranks->grid, flags, context.plan)),
      tokens_(context, flags.context),
      stage_ranks_(ranks_of_stage(context, flags)),
      state_(context, stage_.layout, context.ranks->replicas().rank(),
             storages_for(context, flags, stage_ranks_.get())),
      model_(context, stage_.layout, state_.parameters, state_.gradients,
             {.num_buffers = stage_.num_buffers(),
              .tensor = points_on(context, flags),
              .summed = context.ranks->grid.tensor_size > 1 ? context.ranks->registered : nullptr,
              .part = tokens_.part(),
              .context = tokens_.attention(),
              .chunks = stage_.chunks}),
      reduced_(flags.reduce.make_buffer(context, stage_.layout)),
      pipeline_(make_pipeline(context, flags, stage_, model_)),
      head_copies_(context, stage_.layout, context.ranks->on(Axis::tensor)),
      share_(context.config, context.ranks->on(Axis::data)),
      sync_(make_sync(flags, state_, context.ranks->replicas(), reduced_)) {}

StepResult ThreeDTrainer::step() {
  const auto& [grid, world, groups, registered] = *context_.ranks;
  ModelState& state = state_;
  ++state.step;
  const double num_tokens = model_.counted_tokens(Split::train, state.step);
  state.clear_gradients();
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
  head_copies_.sum(context_.stream, state.gradients);
  // Only ranks of the last stage have losses, and all ranks of a tensor group have the same ones.
  // So one rank of each group counts.
  const double own_loss = model_.total_loss();
  const double loss =
      sum_over(world, grid.group_rank(Axis::tensor) == 0 ? own_loss : 0) / num_tokens;
  // Every parameter counts once: shards over the replicas, slices over the tensor axis, units over
  // the pipeline (Parameter::counted).
  const double norm = std::sqrt(sum_over(world, state.squared_norm()));
  return {loss, norm, sync_->update(norm)};
}

double ThreeDTrainer::evaluate(size_t num_batches) {
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    pipeline_->evaluate(batch, share_.first(), share_.num_sequences());
    const double own = model_.total_loss();
    const bool counts = context_.ranks->grid.group_rank(Axis::tensor) == 0;
    total += sum_over(context_.ranks->world, counts ? own : 0);
  }
  return total / model_.counted_in_validation(num_batches);
}

void ThreeDTrainer::check_replicas() {
  GridGroups& groups = *context_.ranks->groups;
  std::vector<Copies> all = copies_of_slices(groups[Axis::tensor], stage_.layout);
  all.push_back({context_.ranks->replicas()});
  all.push_back(copies_of_shared_units(groups[Axis::embedding]));
  check_copies(state_, context_.ranks->world, all);
}

std::string ThreeDTrainer::report() {
  return context_.ranks->grid.pipeline_size == 1 ? std::string() : pipeline_->report();
}

}  // namespace ladder
