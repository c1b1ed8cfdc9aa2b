#include "lessons/16_pipeline_schedules/plan.h"

#include <algorithm>
#include <sstream>

#include "common/schedule/build.h"
#include "common/schedule/cut.h"
#include "common/train/prediction.h"
#include "common/train/report.h"
#include "common/train/validators.h"

namespace ladder {
namespace {

constexpr size_t kTrials = 2000;

void set_order(ScheduleFlags& flags, const std::string& name) {
  flags.order.reset();
  for (Order order : kOrders) {
    if (name == name_of(order)) flags.order = order;
  }
}

std::vector<ModelPart> cut_parts(const RunConfig& config, const ChunkPlacement& at,
                                 const ScheduleFlags& flags) {
  const ModelDescription model = describe(config.model);
  const size_t most = most_stages(model);
  if (at.num_chunks > 1 && at.num_parts() > most) {
    const std::string why =
        concat(counted(at.num_chunks, "chunk"), " on each of ", counted(at.num_stages, "stage"),
               " are ", at.num_parts(), " parts, but the model has ", counted(most, "unit"));
    throw UserError(concat("--chunks ", at.num_chunks, ": ", why, "; there may be at most ",
                           counted(most / at.num_stages, "chunk")));
  }
  return flags.stage_layers.empty() ? cut_evenly(model, at.num_parts())
                                    : cut_at_layers(model, flags.stage_layers, at.num_parts());
}

// Returns all operations of the parts that a stage holds.
ModelPart stage_part(const std::vector<ModelPart>& parts, const ChunkPlacement& at, size_t stage) {
  ModelPart part = parts[at.part_at(stage, 0)];
  for (size_t chunk = 1; chunk < at.num_chunks; ++chunk) {
    const ModelPart& more = parts[at.part_at(stage, chunk)];
    part.more_chunks.push_back({more.first, more.end});
  }
  return part;
}

PipelinePlan pipeline_of(const RunConfig& config, const std::vector<ModelPart>& parts,
                         const ChunkPlacement& at, const Schedule& work, const std::string& name) {
  PipelinePlan plan = {.parts = {}, .schedule = {}, .name = name, .links = Links::many};
  for (size_t stage = 0; stage < at.num_stages; ++stage) {
    plan.parts.push_back(stage_part(parts, at, stage));
  }
  const Layout last(config.model, 1, plan.parts[at.place_of(at.num_parts() - 1).stage]);
  plan.schedule = complete(work, at, !last.shared_units().empty());
  return plan;
}

void check_micro_batches(const RunConfig& config, Order order, const ChunkPlacement& at) {
  const size_t m = config.num_micro_batches(1), p = at.num_stages;
  if (order != Order::interleaved || m % p == 0) return;
  const size_t enough = (m / p + 1) * p * config.micro_batch_size;
  throw UserError(concat("--schedule interleaved: ", counted(m, "micro-batch"), " on ",
                         counted(p, "stage"), "; they go around in groups of one for each stage, ",
                         "so the stages must divide them: --global-batch-size ", enough,
                         " would do"));
}

// Returns the times of the parts: as measured, or one unit for each of forward and the halves.
std::vector<PartTimes> times_of_parts(const RunConfig& config, const std::vector<ModelPart>& parts,
                                      const ScheduleFlags& flags) {
  const ModelDescription model = describe(config.model);
  double all = 0, classifier = 0;
  for (const Operation& operation : model.operations) {
    (operation.kind == OperationKind::classifier ? classifier : all) += operation.forward_flops;
  }
  const std::vector<double> by_flops = {all, all, all, 3 * classifier, 0};
  const std::vector<double>& whole = flags.times.empty() ? by_flops : flags.times;
  std::vector<PartTimes> times;
  for (const ModelPart& part : parts) {
    const bool classifies = part.end >= model.operations.size();
    double share = part_flops(model, part) / 3;
    if (classifies) share -= classifier;
    share /= all;
    times.push_back({.forward = share * whole[0] + (classifies ? whole[3] : 0),
                     .input = share * whole[1],
                     .weight = share * whole[2]});
  }
  return times;
}

// The bytes of device memory that a stage needs with one slot, and for each further one.
struct StageBytes {
  size_t with_one_slot = 0, slot = 0;
};

StageBytes bytes_of(const RunConfig& config, const ProcessGrid& grid, const ChunkPlan& plan,
                    size_t stage) {
  ProcessGrid there = grid;
  there.rank = grid.rank_at(Axis::pipeline, stage);
  const ChunkLayouts layouts = plan.layouts(config, stage);
  const auto total = [&](size_t num_slots) {
    Rehearsal rehearsal(config, there);
    const StageMemory memory(rehearsal.context(), layouts, plan.placement, num_slots);
    return rehearsal.device_peak().total();
  };
  const size_t one = total(1);
  return {one, total(2) - one};
}

// What the search has found for one placement. `least` is the memory that it needs at all.
struct Found {
  ChunkPlan plan;
  double time = 0;
  bool fits = false;
  size_t least = 0;
};

Found search(const RunConfig& config, const ProcessGrid& grid, const ChunkPlacement& at,
             const ScheduleFlags& flags) {
  Found found;
  found.plan = {at, cut_parts(config, at, flags), {}};
  ScheduleProblem problem = {.placement = at,
                             .num_micro_batches = config.num_micro_batches(1),
                             .times = times_of_parts(config, found.plan.parts, flags),
                             .message = flags.times.empty() ? 0 : flags.times.back(),
                             .max_slots = {}};
  const size_t no_limit = problem.num_micro_batches * at.num_chunks;
  found.fits = true;
  for (size_t stage = 0; stage < at.num_stages; ++stage) {
    const auto [with_one, slot] = bytes_of(config, grid, found.plan, stage);
    const size_t limit = config.device_memory, least = with_one + (at.num_chunks - 1) * slot;
    found.least = std::max(found.least, least);
    if (limit != 0 && limit < least) found.fits = false;
    const bool is_limited = limit != 0 && found.fits;
    problem.max_slots.push_back(is_limited ? std::min(no_limit, 1 + (limit - with_one) / slot)
                                           : no_limit);
  }
  if (!found.fits) return found;
  std::vector<Schedule> known;
  for (Order order : kOrders) {
    const ChunkPlacement its = placement_of(order, at.num_stages, at.num_chunks);
    const bool goes_around =
        order != Order::interleaved || problem.num_micro_batches % at.num_stages == 0;
    if (its.num_chunks == at.num_chunks && its.is_v == at.is_v && goes_around) {
      known.push_back(make_work(order, at, problem.num_micro_batches));
    }
  }
  const Schedule work = find_work(problem, known, kTrials);
  found.fits = !work.empty();
  if (!found.fits) return found;
  found.time = time_of(problem, work);
  found.plan.pipeline = pipeline_of(config, found.plan.parts, at, work, "auto");
  return found;
}

// Tries one chunk on a stage, and two, looped and in a V, and takes the fastest list. With --chunks
// it tries so many only.
ChunkPlan find_plan(const RunConfig& config, const ProcessGrid& grid, const ScheduleFlags& flags) {
  const size_t p = grid.pipeline_size, most = most_stages(describe(config.model)) / p;
  std::optional<Found> best;
  size_t least = ~size_t{0};
  for (size_t chunks : flags.chunks == 0 ? std::vector<size_t>{1, 2} : std::vector{flags.chunks}) {
    if (flags.chunks == 0 &&
        (chunks > std::max<size_t>(most, 1) ||
         (!flags.stage_layers.empty() && flags.stage_layers.size() != p * chunks))) {
      continue;
    }
    for (bool is_v : {false, true}) {
      if (is_v && chunks == 1) continue;
      Found found = search(config, grid, {p, chunks, is_v}, flags);
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

void check_flags(const RunConfig& config, const ScheduleFlags& flags) {
  if (config.recompute.name != "none" || config.offload_activations) {
    throw UserError(concat(config.offload_activations ? "--offload-activations" : "--recompute",
                           ": 16_pipeline_schedules keeps all activations on the device; take ",
                           "08_pipeline_parallel"));
  }
  if (flags.chunks == 0 || !flags.order || *flags.order == Order::interleaved) return;
  const size_t its = placement_of(*flags.order, 1, 1).num_chunks;
  if (flags.chunks == its) return;
  throw UserError(concat("--chunks ", flags.chunks, ": in ", name_of(*flags.order), " a stage has ",
                         counted(its, "chunk"), "; take interleaved"));
}

}  // namespace

void ScheduleFlags::add_to(CLI::App& app) {
  const char* const group = "Pipeline parallel";
  app.add_option("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline")
      ->check(whole(1, 1'000'000))
      ->group(group);
  app.add_option_function<std::string>(
         "--schedule", [this](const std::string& name) { set_order(*this, name); },
         "1f1b, interleaved, zb-h1, zb-v or auto [zb-h1]")
      ->check(CLI::IsMember({"1f1b", "interleaved", "zb-h1", "zb-v", "auto"}).description(""))
      ->group(group);
  app.add_option("--chunks", chunks, "Chunks of the model on each stage [2 if interleaved]")
      ->check(whole(1, 1'000))
      ->group(group);
  add_whole_list(app, "--stage-layers", stage_layers,
                 "Blocks of each part, in the order of the model [so that the longest is short]", 0,
                 10'000)
      ->group(group);
  app.add_option("--times", times,
                 "Milliseconds of a micro-batch, for auto: forward, backward's halves, classifier, "
                 "message")
      ->delimiter(',')
      ->expected(5)
      ->check(real(0, 1e9))
      ->group(group);
  app.add_option("--draw", draw, "File: the schedule as SVG")->check(path())->group(group);
}

ChunkLayouts ChunkPlan::layouts(const RunConfig& config, size_t stage) const {
  ChunkLayouts layouts = {Layout(config.model, 1, stage_part(parts, placement, stage)), {}};
  for (size_t chunk = 0; chunk < placement.num_chunks; ++chunk) {
    layouts.chunks.emplace_back(config.model, 1, parts[placement.part_at(stage, chunk)]);
  }
  return layouts;
}

ChunkPlan plan_chunks(const RunConfig& config, const ProcessGrid& grid,
                      const ScheduleFlags& flags) {
  check_flags(config, flags);
  if (!flags.order) return find_plan(config, grid, flags);
  const Order order = *flags.order;
  const ChunkPlacement at =
      placement_of(order, grid.pipeline_size, flags.chunks == 0 ? 2 : flags.chunks);
  check_micro_batches(config, order, at);
  ChunkPlan plan = {at, cut_parts(config, at, flags), {}};
  const Schedule work = make_work(order, at, config.num_micro_batches(1));
  plan.pipeline = pipeline_of(config, plan.parts, at, work, std::string(name_of(order)));
  return plan;
}

StageMemory::StageMemory(const TrainerContext& context, const ChunkLayouts& layouts,
                         const ChunkPlacement& placement, size_t num_slots)
    : state(context, layouts.stage, 0, {.gradients = {.source = context.ranks->registered}}),
      runner(context, layouts, state, num_slots,
             placement.num_chunks > 1 && placement.num_stages > 1, placement.num_stages > 1) {}

}  // namespace ladder
