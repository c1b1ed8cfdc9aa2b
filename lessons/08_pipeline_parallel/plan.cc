#include "lessons/08_pipeline_parallel/plan.h"

#include "common/schedule/cut.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {

void PipelineFlags::add_to(FlagTable& flags) {
  flags.heading("Pipeline parallel");
  flags.add("--pipeline-parallel-size", pipeline_parallel_size, "Stages of the pipeline",
            whole(1, 1'000'000), {.compared = ComparedBy::layout});
  const auto set_schedule = [this](const std::string& name) {
    using enum ScheduleKind;
    schedule = name == "naive" ? naive : name == "gpipe" ? gpipe : one_f_one_b;
  };
  flags.add_function("--schedule", set_schedule, "naive, gpipe or 1f1b [1f1b]",
                     CLI::IsMember({"naive", "gpipe", "1f1b"}).description(""));
  flags.add_whole_list("--stage-layers", stage_layers,
                       "Blocks of each stage, such as 5,3,3,1 [so that the longest stage is short]",
                       0, 10'000);
}

std::shared_ptr<const PipelinePlan> plan_pipeline(const RunConfig& config, const ProcessGrid& grid,
                                                  const PipelineFlags& flags) {
  const ModelDescription model = describe(config.model);
  PipelinePlan plan = {.placement = {.num_stages = grid.pipeline_size},
                       .chunks = flags.stage_layers.empty()
                                     ? cut_evenly(model, grid.pipeline_size)
                                     : cut_at_layers(model, flags.stage_layers, grid.pipeline_size),
                       .schedule = {},
                       .name = std::string(name_of(flags.schedule))};
  for (const ModelPartition& stage : plan.chunks)
    check_recompute(config.recompute, Layout(model, 1, stage).count(OperationKind::block));
  const bool shares_units = !Layout(model, 1, plan.chunks.back()).shared_units().empty();
  plan.schedule =
      make_schedule(flags.schedule, grid.pipeline_size, config.num_micro_batches(1), shares_units);
  plan.end_backward(model);
  return std::make_shared<const PipelinePlan>(std::move(plan));
}

}  // namespace ladder
