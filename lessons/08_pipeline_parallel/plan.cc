#include "lessons/08_pipeline_parallel/plan.h"

#include <algorithm>

#include "common/io/file.h"
#include "common/schedule/draw.h"
#include "common/train/report.h"
#include "common/train/validators.h"

namespace ladder {
namespace {

Schedule schedule_of(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags) {
  return make_schedule(flags.schedule, grid.pipeline_size,
                       config.num_micro_batches(grid.data_size));
}

// Where all stages cost the same, backward twice a forward and messages nothing.
Timeline ideal_timeline(const Schedule& schedule) {
  return simulate(schedule, uniform_costs(1, 2));
}

ScheduleKind parse_schedule(const std::string& name) {
  using enum ScheduleKind;
  for (ScheduleKind kind : {naive, gpipe, one_f_one_b}) {
    if (name == name_of(kind)) return kind;
  }
  throw CLI::ValidationError("--schedule", "expected naive, gpipe or 1f1b, not '" + name + "'");
}

}  // namespace

void PipelineFlags::add_to(CLI::App& app) {
  const char* const group = "Pipeline parallel";
  app.add_option("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline")
      ->check(whole(1, 1'000'000))
      ->group(group);
  app.add_option_function<std::string>(
         "--schedule", [this](const std::string& name) { schedule = parse_schedule(name); },
         "naive, gpipe or 1f1b [1f1b]")
      ->group(group);
  app.add_option("--stage-layers", stage_layers,
                 "Blocks of each stage, such as 5,3,3,1 [so that the dearest stage is cheapest]")
      ->delimiter(',')
      ->check(whole(0, 10'000))
      ->group(group);
  app.add_option("--draw", draw, "File: the schedule as SVG")->check(path())->group(group);
}

void PipelineFlags::check_files() const {
  if (!draw.empty()) PartialFile probe(draw);  // removed again, never committed
}

std::vector<ModelPart> stages_of(const Gpt2Config& config, size_t num_stages,
                                 const PipelineFlags& flags) {
  const std::vector<size_t> first = flags.stage_layers.empty()
                                        ? cut_units(unit_flops(config), num_stages)
                                        : cut_at_layers(config, flags.stage_layers, num_stages);
  std::vector<ModelPart> parts(num_stages);
  for (size_t stage = 0; stage < num_stages; ++stage) {
    parts[stage].first_unit = first[stage];
    parts[stage].end_unit = stage + 1 < num_stages ? first[stage + 1] : config.num_layers + 3;
  }
  return parts;
}

void add_messages(Prediction& prediction, const RunConfig& config, const StageSchedule& stage) {
  const size_t bytes = config.micro_batch_size * config.model.sequence_length *
                       config.model.hidden * size_of(config.dtype);
  for (const Action& action : stage) {
    if (!is_send(action.kind) && !is_recv(action.kind)) continue;
    Traffic& traffic =
        prediction
            .step[{Purpose::activation, is_send(action.kind) ? Collective::send : Collective::recv,
                   Axis::pipeline}];
    ++traffic.calls;
    traffic.payload_bytes += bytes;
  }
}

std::string units_text(const Layout& layout) {
  // The last stage's copy of the token embedding goes with the classifier.
  const bool has_copy = layout.is_token_embedding(0) && !layout.embeds_tokens();
  const std::string& first = layout.unit(has_copy ? 1 : 0).name;
  const std::string& last = layout.units().back().name;
  return first + (first == last ? "" : " to " + last) +
         (layout.has_classifier() ? " and classifier" : "");
}

std::string describe_pipeline(const RunConfig& config, const ProcessGrid& grid,
                              const PipelineFlags& flags) {
  const std::vector<double> flops = unit_flops(config.model);
  const std::vector<ModelPart> parts = stages_of(config.model, grid.pipeline_size, flags);
  const Schedule schedule = schedule_of(config, grid, flags);
  double total = 0;
  for (double unit : flops) total += unit;
  std::string text;
  std::vector<size_t> cut;
  for (size_t stage = 0; stage < parts.size(); ++stage) {
    const Layout layout(config.model, 1, parts[stage]);
    double own = 0;
    for (size_t unit = parts[stage].first_unit; unit < parts[stage].end_unit; ++unit) {
      own += flops[unit];
    }
    text +=
        format("  stage %-2zu %s: %.1f %% of the products, %zu micro-batches in flight\n", stage,
               units_text(layout).c_str(), 100 * own / total, num_slots(schedule[stage]));
    cut.push_back(parts[stage].first_unit);
  }
  const Timeline timeline = ideal_timeline(schedule);
  text +=
      format("  balance  %.3f (mean / largest); %s, bubble %.1f %% if all stages cost the same\n",
             balance(flops, cut), std::string(name_of(flags.schedule)).c_str(),
             100 * bubble_of(schedule, timeline).overall);
  constexpr size_t kColumns = 100;
  const std::string drawing = draw_text(schedule, timeline);
  return drawing.find('\n') <= kColumns ? text + drawing : text;
}

void draw_pipeline(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags) {
  if (flags.draw.empty() || grid.rank != 0) return;
  const Schedule schedule = schedule_of(config, grid, flags);
  PartialFile file(flags.draw);
  const std::string svg =
      draw_svg(std::string(name_of(flags.schedule)), schedule, ideal_timeline(schedule));
  file.write(std::as_bytes(std::span(svg)));
  file.commit();
}

std::string bubble_report(Communicator& stages, const Schedule& schedule, ScheduleKind kind,
                          const Pipeline::Times& times, size_t num_micro_batches) {
  const size_t p = stages.size();
  std::vector<double> all(3 * p);
  all[3 * stages.rank()] = times.forward;
  all[3 * stages.rank() + 1] = times.backward;
  all[3 * stages.rank() + 2] = times.all;
  Stream host(DeviceType::cpu);
  const TensorView view(all.data(), DType::fp64, DeviceType::cpu, {3 * p});
  stages.all_gather(host, view, view.rows(3 * stages.rank(), 3), {}).wait(host);
  double busy = 0, longest = 0;
  for (size_t stage = 0; stage < p; ++stage) {
    busy += all[3 * stage] + all[3 * stage + 1];
    longest = std::max(longest, all[3 * stage + 2]);
  }
  if (longest == 0) return {};  // there was but one step
  const Costs measured = [&](size_t stage, ActionKind action) {
    return action == ActionKind::forward    ? all[3 * stage]
           : action == ActionKind::backward ? all[3 * stage + 1]
                                            : 0;
  };
  const double m = static_cast<double>(num_micro_batches),
               stages_minus_1 = static_cast<double>(p - 1);
  return format(
      "\n  bubble of %s: %.1f %% of the wall time; %.1f %% by the schedule with the times of\n"
      "  forward and backward measured here; (p-1)/(m+p-1) = %.1f %%\n",
      std::string(name_of(kind)).c_str(), 100 * (1 - busy / (static_cast<double>(p) * longest)),
      100 * bubble_of(schedule, simulate(schedule, measured)).overall,
      100 * stages_minus_1 / (m + stages_minus_1));
}

StageCollector::StageCollector(const TrainerContext& context, const std::vector<ModelPart>& parts)
    : stages_(context.groups->activations()) {
  const size_t bytes = num_bytes(context.config, parts, context.grid);
  if (bytes == 0) return;
  for (size_t stage = 1; stage < parts.size(); ++stage) {
    others_.emplace_back(context.config.model, 1, parts[stage]);
  }
  const DType dtype = context.config.dtype;
  host_ = Tensor(context.host_memory, Category::workspace, dtype, {bytes / size_of(dtype)});
}

size_t StageCollector::num_bytes(const RunConfig& config, const std::vector<ModelPart>& parts,
                                 const ProcessGrid& grid) {
  size_t largest = 0;
  for (size_t other = 1; grid.rank == 0 && other < parts.size(); ++other) {
    const Layout layout(config.model, 1, parts[other]);
    for (const Unit& unit : layout.units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (parameter.counted) largest = std::max(largest, parameter.shape.num_elements());
      }
    }
  }
  return largest * size_of(config.dtype);
}

void StageCollector::visit(const std::function<void(const TensorSink&)>& visit_own,
                           const TensorSink& sink) {
  if (stages_.rank() != 0) {
    return visit_own([&](const Parameter& parameter, ConstTensorView tensor) {
      // The last stage's token embedding is the first stage's.
      if (parameter.name != "wte.weight")
        stages_.send(host_stream_, tensor, 0, {}).wait(host_stream_);
    });
  }
  visit_own(sink);
  for (size_t stage = 1; stage < stages_.size(); ++stage) {
    for (const Unit& unit : others_[stage - 1].units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (!parameter.counted) continue;
        const TensorView tensor = host_.view().elements(0, parameter.shape);
        stages_.recv(host_stream_, tensor, stage, {}).wait(host_stream_);
        sink(parameter, tensor);
      }
    }
  }
}

}  // namespace ladder
