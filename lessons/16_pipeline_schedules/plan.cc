#include "lessons/16_pipeline_schedules/plan.h"

#include <algorithm>
#include <sstream>

#include "common/schedule/cut.h"
#include "common/schedule/search.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {
namespace {

constexpr size_t kTrials = 2000;

void set_order(ScheduleFlags& flags, const std::string& name) {
  flags.order.reset();
  for (Order order : kOrders) {
    if (name == name_of(order)) flags.order = order;
  }
}

// Returns how many blocks the model chunk with the fewest has, among those that have any.
size_t fewest_blocks(const ModelDescription& model,
                     const std::vector<ModelPartition>& model_chunks) {
  size_t fewest = ~size_t{0};
  for (const ModelPartition& chunk : model_chunks) {
    const size_t blocks = Layout(model, 1, chunk).count(OperationKind::block);
    if (blocks > 0) fewest = std::min(fewest, blocks);
  }
  return fewest;
}

std::vector<ModelPartition> cut_chunks(const RunConfig& config, const ChunkPlacement& at,
                                       const ScheduleFlags& flags) {
  const ModelDescription model = describe(config.model);
  const size_t most = most_stages(model);
  if (at.num_chunks > 1 && at.num_virtual_stages() > most) {
    const std::string why = concat(
        counted(at.num_chunks, "chunk"), " on each of ", counted(at.num_stages, "stage"), " are ",
        at.num_virtual_stages(), " virtual stages, but the model has ", counted(most, "unit"));
    throw UserError(concat("--chunks ", at.num_chunks, ": ", why, "; there may be at most ",
                           counted(most / at.num_stages, "chunk")));
  }
  std::vector<ModelPartition> chunks =
      flags.stage_layers.empty()
          ? cut_evenly(model, at.num_virtual_stages())
          : cut_at_layers(model, flags.stage_layers, at.num_virtual_stages());
  check_recompute(config.recompute, fewest_blocks(model, chunks));
  return chunks;
}

std::string order_name(const ScheduleFlags& flags) {
  return std::string(flags.order ? name_of(*flags.order) : "auto");
}

// Lists in which activations only go to later stages, in the order of lesson 08, need few links.
bool needs_many_links(const ScheduleFlags& flags) {
  return !flags.order || *flags.order == Order::interleaved || splits_backward(*flags.order);
}

// Returns a plan without a schedule.
PipelinePlan plan_at(const RunConfig& config, const ChunkPlacement& at,
                     const ScheduleFlags& flags) {
  return {.placement = at,
          .chunks = cut_chunks(config, at, flags),
          .schedule = Schedule(at.num_stages),
          .name = order_name(flags),
          .links = needs_many_links(flags) ? Links::many : Links::few};
}

void check_micro_batches(const RunConfig& config, const ProcessGrid& grid, Order order) {
  const size_t m = config.num_micro_batches(grid.data_size), p = grid.pipeline_size;
  if (order != Order::interleaved || m % p == 0) return;
  const size_t enough = (m / p + 1) * p * config.micro_batch_size * grid.data_size;
  throw UserError(concat("--schedule interleaved: ", counted(m, "micro-batch"), " on ",
                         counted(p, "stage"), "; they go around in groups of one for each stage, ",
                         "so the stages must divide them: --global-batch-size ", enough,
                         " would do"));
}

// Returns the times of the model chunks: as measured, or one unit for each of forward and the
// halves. Chunks without backward have no halves; the others share what is measured of them.
std::vector<VirtualStageTimes> times_of(const RunConfig& config,
                                        const std::vector<ModelPartition>& chunks,
                                        const ScheduleFlags& flags) {
  const ModelDescription model = describe(config.model);
  double all = 0, classifier = 0, with_backward = 0;
  for (const Operation& operation : model.operations) {
    (operation.kind == OperationKind::classifier ? classifier : all) += operation.forward_flops;
  }
  std::vector<VirtualStageTimes> times;
  for (const ModelPartition& chunk : chunks) {
    const double rest = chunk.end < model.operations.size() ? 0 : classifier;
    const double share = (forward_flops(model, chunk) - rest) / all;
    const double back = chunk.end > model.first_trained() ? share : 0;
    with_backward += back;
    times.push_back({share, back, back});
  }
  const double part = model.first_trained() == 0 ? 1 : std::max(with_backward, 1e-9);
  const std::vector<double> by_flops = {all, all * part, all * part, 3 * classifier, 0};
  const std::vector<double>& whole = flags.times.empty() ? by_flops : flags.times;
  for (auto& [forward, input, weight] : times) {
    forward *= whole[0], input *= whole[1] / part, weight *= whole[2] / part;
  }
  times.back().forward += whole[3];
  return times;
}

// What the search has found for one placement. `least` is the memory that it needs at all.
struct Found {
  PipelinePlan plan;
  double time = 0;
  bool fits = false;
  size_t least = 0;
};

// Returns the named schedules with the placement of the problem.
std::vector<Schedule> known_work(const ScheduleProblem& problem) {
  const ChunkPlacement& at = problem.placement;
  std::vector<Schedule> known;
  for (Order order : kOrders) {
    const bool is_possible =
        (order != Order::interleaved || problem.num_micro_batches % at.num_stages == 0) &&
        (problem.splits || !splits_backward(order));
    if (is_possible && placement_of(order, at.num_stages, at.num_chunks) == at) {
      known.push_back(make_work(order, at, problem.num_micro_batches));
    }
  }
  return known;
}

Found search(const RunConfig& config, const ProcessGrid& grid, const ChunkPlacement& at,
             const ScheduleFlags& flags, const StageBytes& bytes) {
  Found found = {.plan = plan_at(config, at, flags), .fits = true};
  ScheduleProblem problem = {.placement = at,
                             .num_micro_batches = config.num_micro_batches(grid.data_size),
                             .times = times_of(config, found.plan.chunks, flags),
                             .message = flags.times.empty() ? 0 : flags.times.back(),
                             .max_buffers = {},
                             .splits = config.recompute.name == "none"};
  const auto bytes_with = [&](size_t stage, size_t num_buffers) {
    const auto plan = std::make_shared<PipelinePlan>(found.plan);
    plan->schedule[stage] = {{.kind = ActionKind::forward, .buffer = num_buffers - 1}};
    return bytes(plan, stage);
  };
  const size_t no_limit = problem.num_micro_batches * at.num_chunks;
  for (size_t stage = 0; stage < at.num_stages; ++stage) {
    const size_t with_one = bytes_with(stage, 1), buffer = bytes_with(stage, 2) - with_one;
    const size_t limit = config.device_memory, least = with_one + (at.num_chunks - 1) * buffer;
    found.least = std::max(found.least, least);
    if (limit != 0 && limit < least) found.fits = false;
    const bool is_limited = limit != 0 && found.fits;
    problem.max_buffers.push_back(is_limited ? std::min(no_limit, 1 + (limit - with_one) / buffer)
                                             : no_limit);
  }
  if (!found.fits) return found;
  const Schedule work = find_work(problem, known_work(problem), kTrials);
  found.fits = !work.empty();
  if (!found.fits) return found;
  found.time = time_of(problem, work);
  found.plan.complete(config.model, work);
  return found;
}

// Returns what the flags say, or one, and two if each has enough blocks for --recompute every-K.
std::vector<size_t> chunks_to_try(const RunConfig& config, const ScheduleFlags& flags, size_t p) {
  if (flags.chunks > 0) return {flags.chunks};
  if (!flags.stage_layers.empty()) return {std::max<size_t>(flags.stage_layers.size() / p, 1)};
  const ModelDescription model = describe(config.model);
  if (2 * p > most_stages(model)) return {1};
  const size_t blocks = fewest_blocks(model, cut_evenly(model, 2 * p));
  return blocks < config.recompute.group_size ? std::vector<size_t>{1} : std::vector<size_t>{1, 2};
}

// Tries these chunks, looped and in a V, and takes the fastest list.
PipelinePlan find_plan(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags,
                       const StageBytes& bytes) {
  const size_t p = grid.pipeline_size;
  std::optional<Found> best;
  size_t least = ~size_t{0};
  for (size_t chunks : chunks_to_try(config, flags, p)) {
    for (bool is_v : {false, true}) {
      if (is_v && chunks == 1) continue;
      Found found = search(config, grid, {p, chunks, is_v}, flags, bytes);
      least = std::min(least, found.least);
      if (found.fits && (!best || found.time < best->time)) best = std::move(found);
    }
  }
  if (!best) {
    throw UserError(concat("--device-memory ", human_bytes(config.device_memory),
                           ": no schedule needs so little; the smallest that works is ", least,
                           " bytes (", human_bytes(least), ")"));
  }
  return std::move(best->plan);
}

// Refuses what a schedule cannot be combined with.
void check_flags(const RunConfig& config, const ScheduleFlags& flags) {
  const std::string name = order_name(flags);
  if (config.offload_activations && needs_many_links(flags)) {
    throw UserError(concat("--offload-activations with --schedule ", name,
                           ": this schedule keeps activations on the device; take 1f1b"));
  }
  if (config.recompute.name != "none" && flags.order && splits_backward(*flags.order)) {
    throw UserError(concat("--recompute ", config.recompute.name, " with --schedule ", name,
                           ": what the half for the input computes again has to wait for the half ",
                           "for the weights, and the last stage puts off so many of these that no ",
                           "memory is saved; take 1f1b or interleaved"));
  }
  if (flags.chunks == 0 || !flags.order || *flags.order == Order::interleaved) return;
  const size_t its = placement_of(*flags.order, 1, 1).num_chunks;
  if (flags.chunks == its) return;
  throw UserError(concat("--chunks ", flags.chunks, ": in ", name, " a stage has ",
                         counted(its, "chunk"), "; take interleaved"));
}

}  // namespace

void ScheduleFlags::add_to(FlagTable& flags) {
  flags.heading("Pipeline parallel");
  std::vector<std::string> names;
  for (Order each : kOrders) names.emplace_back(name_of(each));
  const std::string help =
      concat(CLI::detail::join(names, ", "), " or auto [", name_of(*order), "]");
  names.emplace_back("auto");
  flags.add("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline",
            whole(1, 1'000'000), {.compared = ComparedBy::layout});
  flags.add_function(
      "--schedule", [this](const std::string& name) { set_order(*this, name); }, help,
      CLI::IsMember(names).description(""));
  flags.add("--chunks", chunks, "Chunks of the model on each stage [2 if interleaved]",
            whole(1, 1'000));
  flags.add_whole_list(
      "--stage-layers", stage_layers,
      "Blocks of each virtual stage, in the order of the model [so that the longest is short]", 0,
      10'000);
  flags
      .add("--times", times,
           "Milliseconds of a micro-batch, for auto: forward, backward's halves, classifier, "
           "message")
      ->delimiter(',')
      ->expected(5)
      ->check(real(0, 1e9));
}

std::shared_ptr<const PipelinePlan> plan_schedule(const RunConfig& config, const ProcessGrid& grid,
                                                  const ScheduleFlags& flags,
                                                  const StageBytes& bytes) {
  check_flags(config, flags);
  if (!flags.order) {
    return std::make_shared<const PipelinePlan>(find_plan(config, grid, flags, bytes));
  }
  const ChunkPlacement at =
      placement_of(*flags.order, grid.pipeline_size, flags.chunks == 0 ? 2 : flags.chunks);
  check_micro_batches(config, grid, *flags.order);
  const auto plan = std::make_shared<PipelinePlan>(plan_at(config, at, flags));
  plan->complete(config.model,
                 make_work(*flags.order, at, config.num_micro_batches(grid.data_size)));
  return plan;
}

size_t num_links(const ScheduleFlags& flags) { return needs_many_links(flags) ? kNumLinks : 0; }

}  // namespace ladder
