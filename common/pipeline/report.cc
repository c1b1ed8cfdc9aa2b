#include "common/pipeline/report.h"

#include <algorithm>
#include <numeric>

#include "common/io/file.h"
#include "common/io/path.h"
#include "common/schedule/balance.h"
#include "common/schedule/csv.h"
#include "common/schedule/cut.h"
#include "common/schedule/draw.h"
#include "common/train/report/report.h"

namespace ladder {
namespace {

// Returns the timeline if all stages cost the same, backward costs twice a forward, and messages
// cost nothing.
Timeline ideal_timeline(const PipelinePlan& plan) {
  return simulate(plan.schedule, uniform_costs(1, 2), plan.links);
}

}  // namespace

std::string units_text(const Layout& layout) {
  std::string text;
  size_t begin = 0;  // of a chunk, among the operations of the layout
  const auto add_chunk = [&](size_t count) {
    const Operation* const operations = &layout.operations()[begin];
    const auto name = [&](size_t i) { return layout.unit(operations[i].unit).name; };
    // The classifier has no unit of its own.
    const bool classifies = operations[count - 1].kind == OperationKind::classifier;
    const std::string first = name(0), last = name(count - (classifies ? 2 : 1));
    text += concat(begin == 0 ? "" : ", ", first, first == last ? "" : " to " + last,
                   classifies ? " and classifier" : "");
    begin += count;
  };
  const std::vector<ModelPartition::Chunk>& others = layout.part().more_chunks;
  size_t num_others = 0;
  for (const ModelPartition::Chunk& chunk : others) num_others += chunk.end - chunk.first;
  add_chunk(layout.operations().size() - num_others);
  for (const ModelPartition::Chunk& chunk : others) add_chunk(chunk.end - chunk.first);
  return text;
}

std::string stages_text(const RunConfig& config, const PipelinePlan& plan) {
  const ModelDescription model = describe(config.model);
  const size_t num_stages = plan.schedule.size();
  std::vector<ModelPartition> stages;
  std::vector<double> flops;
  for (size_t stage = 0; stage < num_stages; ++stage) {
    stages.push_back(plan.operations_of(stage));
    flops.push_back(part_flops(model, stages.back()));
  }
  const double total = std::accumulate(flops.begin(), flops.end(), 0.0);
  std::string text;
  for (size_t stage = 0; stage < num_stages; ++stage) {
    text += format("  stage %-2zu %s: %.1f %% of the products, in flight: %zu\n", stage,
                   units_text(Layout(model, 1, stages[stage])).c_str(), 100 * flops[stage] / total,
                   num_buffers(plan.schedule[stage]));
  }
  const Timeline timeline = ideal_timeline(plan);
  text +=
      format("  balance  %.3f (mean / largest); %s: bubble %.1f %% if all stages cost the same\n",
             balance(flops), plan.name.c_str(), 100 * bubble_of(plan.schedule, timeline).overall);
  constexpr size_t kColumns = 100;
  const std::string drawing = draw_text(plan.schedule, timeline);
  return drawing.find('\n') <= kColumns ? text + drawing : text;
}

std::string drawing_of(const PipelinePlan& plan) {
  return draw_svg(plan.name, plan.schedule, ideal_timeline(plan));
}

void draw_schedule(const RunConfig& config, const PipelinePlan& plan) {
  if (config.draw.empty() || !config.simulated.empty()) return;
  named_by("--draw", [&] {
    PartialFile file(config.draw);
    file.write(config.draw.ends_with(".csv") ? csv_of(plan.schedule, plan.placement)
                                             : drawing_of(plan));
    file.commit();
  });
}

std::vector<StageTimes> times_of_stages(Communicator& stages, const StageTimes& own) {
  constexpr size_t kNumbers = sizeof(StageTimes) / sizeof(double);
  std::vector<StageTimes> times(stages.size());
  times[stages.rank()] = own;
  Stream host(DeviceType::cpu);
  const TensorView all(times.data(), DType::fp64, DeviceType::cpu, {kNumbers * stages.size()});
  stages.all_gather(host, all, all.rows(kNumbers * stages.rank(), kNumbers), {}).wait(host);
  return times;
}

std::string bubble_text(const PipelinePlan& plan, const std::vector<StageTimes>& times) {
  double busy = 0, longest = 0;
  for (const StageTimes& stage : times) {
    busy += stage.forward + stage.backward + stage.weight;
    longest = std::max(longest, stage.all);
  }
  if (longest == 0) return {};
  const Costs measured = [&](size_t stage, const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return times[stage].forward;
      case ActionKind::backward:
      case ActionKind::backward_input:
        return times[stage].backward;
      case ActionKind::backward_weight:
        return times[stage].weight;
      default:
        return 0.0;
    }
  };
  const Costs equal = uniform_costs(1, 2);
  const auto percent_of = [&](const Costs& costs) {
    return 100 * bubble_of(plan.schedule, simulate(plan.schedule, costs, plan.links)).overall;
  };
  return format(
      "\n  bubble of %s: %.1f %% of the wall time; %.1f %% by the schedule with the times of\n"
      "  forward and backward measured here; %.1f %% with equal stages\n",
      plan.name.c_str(), 100 * (1 - busy / (static_cast<double>(times.size()) * longest)),
      percent_of(measured), percent_of(equal));
}

}  // namespace ladder
