#include "common/train/pipeline_report.h"

#include <algorithm>
#include <numeric>

#include "common/io/file.h"
#include "common/schedule/cut.h"
#include "common/schedule/draw.h"
#include "common/train/report.h"

namespace ladder {
namespace {

// Where all stages cost the same, backward twice a forward and messages nothing.
Timeline ideal_timeline(const Schedule& schedule) {
  return simulate(schedule, uniform_costs(1, 2));
}

}  // namespace

std::string units_text(const Layout& layout) {
  // The last stage's copy of the token embedding goes with the classifier.
  const bool has_copy = layout.is_token_embedding(0) && !layout.embeds_tokens();
  const std::string& first = layout.unit(has_copy ? 1 : 0).name;
  const std::string& last = layout.units().back().name;
  return concat(first, first == last ? "" : " to " + last,
                layout.has_classifier() ? " and classifier" : "");
}

std::string stages_text(const RunConfig& config, const PipelinePlan& plan) {
  const std::vector<double> flops = unit_flops(config.model);
  const double total = std::accumulate(flops.begin(), flops.end(), 0.0);
  std::string text;
  std::vector<size_t> cut;
  for (size_t stage = 0; stage < plan.parts.size(); ++stage) {
    const ModelPart& part = plan.parts[stage];
    const double own = std::accumulate(&flops[part.first_unit], &flops[0] + part.end_unit, 0.0);
    text += format("  stage %-2zu %s: %.1f %% of the products, in flight: %zu\n", stage,
                   units_text(Layout(config.model, 1, part)).c_str(), 100 * own / total,
                   num_slots(plan.schedule[stage]));
    cut.push_back(part.first_unit);
  }
  const Timeline timeline = ideal_timeline(plan.schedule);
  text += format(
      "  balance  %.3f (mean / largest); %s: bubble %.1f %% if all stages cost the same\n",
      balance(flops, cut), plan.name.c_str(), 100 * bubble_of(plan.schedule, timeline).overall);
  constexpr size_t kColumns = 100;
  const std::string drawing = draw_text(plan.schedule, timeline);
  return drawing.find('\n') <= kColumns ? text + drawing : text;
}

void write_drawing(const std::string& path, const PipelinePlan& plan) {
  PartialFile file(path);
  file.write(draw_svg(plan.name, plan.schedule, ideal_timeline(plan.schedule)));
  file.commit();
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

std::string bubble_text(const PipelinePlan& plan, const std::vector<StageTimes>& times,
                        size_t num_micro_batches) {
  double busy = 0, longest = 0;
  for (const StageTimes& stage : times) {
    busy += stage.forward + stage.backward;
    longest = std::max(longest, stage.all);
  }
  if (longest == 0) return {};
  const Costs measured = [&](size_t stage, ActionKind kind) {
    return kind == ActionKind::forward    ? times[stage].forward
           : kind == ActionKind::backward ? times[stage].backward
                                          : 0;
  };
  const double p = static_cast<double>(times.size()), m = static_cast<double>(num_micro_batches);
  return format(
      "\n  bubble of %s: %.1f %% of the wall time; %.1f %% by the schedule with the times of\n"
      "  forward and backward measured here; (p-1)/(m+p-1) = %.1f %%\n",
      plan.name.c_str(), 100 * (1 - busy / (p * longest)),
      100 * bubble_of(plan.schedule, simulate(plan.schedule, measured)).overall,
      100 * (p - 1) / (m + p - 1));
}

}  // namespace ladder
