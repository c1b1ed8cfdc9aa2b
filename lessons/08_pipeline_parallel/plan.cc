#include "lessons/08_pipeline_parallel/plan.h"

#include "common/schedule/cut.h"
#include "common/train/validators.h"

namespace ladder {

void PipelineFlags::add_to(CLI::App& app) {
  const char* const group = "Pipeline parallel";
  app.add_option("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline")
      ->check(whole(1, 1'000'000))
      ->group(group);
  const auto set_schedule = [this](const std::string& name) {
    using enum ScheduleKind;
    schedule = name == "naive" ? naive : name == "gpipe" ? gpipe : one_f_one_b;
  };
  app.add_option_function<std::string>("--schedule", set_schedule, "naive, gpipe or 1f1b [1f1b]")
      ->check(CLI::IsMember({"naive", "gpipe", "1f1b"}).description(""))
      ->group(group);
  add_whole_list(app, "--stage-layers", stage_layers,
                 "Blocks of each stage, such as 5,3,3,1 [so that the dearest stage is cheapest]", 0,
                 10'000)
      ->group(group);
  app.add_option("--draw", draw, "File: the schedule as SVG")->check(path())->group(group);
}

PipelinePlan plan_pipeline(const RunConfig& config, const ProcessGrid& grid,
                           const PipelineFlags& flags) {
  const size_t num_stages = grid.pipeline_size;
  const std::vector<size_t> first =
      flags.stage_layers.empty() ? cut_units(unit_flops(config.model), num_stages)
                                 : cut_at_layers(config.model, flags.stage_layers, num_stages);
  PipelinePlan plan;
  for (size_t stage = 0; stage < num_stages; ++stage) {
    ModelPart& part = plan.parts.emplace_back();
    part.first_unit = first[stage];
    part.end_unit = stage + 1 < num_stages ? first[stage + 1] : config.model.num_layers + 3;
  }
  plan.schedule =
      make_schedule(flags.schedule, num_stages, config.num_micro_batches(grid.data_size));
  plan.name = name_of(flags.schedule);
  return plan;
}

Stage::Stage(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags)
    : plan(plan_pipeline(config, grid, flags)),
      index(grid.pipeline_rank()),
      layout(config.model, grid.data_size,
             {.first_unit = plan.parts[index].first_unit,
              .end_unit = plan.parts[index].end_unit,
              .tensor_rank = grid.tensor_rank(),
              .tensor_size = grid.tensor_size}) {}

void add_pipeline_traffic(Prediction& prediction, const RunConfig& config,
                          const StageSchedule& stage, size_t embedding_elements) {
  const size_t message = config.micro_batch_size * config.model.sequence_length *
                         config.model.hidden * size_of(config.dtype);
  const auto add = [&](const TrafficKey& key, size_t bytes) {
    Traffic& traffic = prediction.step[key];
    ++traffic.calls;
    traffic.payload_bytes += bytes;
  };
  for (const Action& action : stage) {
    if (is_send(action.kind)) add({Purpose::activation, Collective::send, Axis::pipeline}, message);
    if (is_recv(action.kind)) add({Purpose::activation, Collective::recv, Axis::pipeline}, message);
    if (action.kind == ActionKind::reduce_embedding) {
      add({Purpose::gradient, Collective::all_reduce, Axis::embedding},
          embedding_elements * size_of(config.accumulation()));
    }
  }
}

}  // namespace ladder
