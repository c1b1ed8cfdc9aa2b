// Plans how a model is divided among the stages of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "common/io/cli11.h"
#include "common/train/pipeline_report.h"
#include "lessons/08_pipeline_parallel/schedules.h"

namespace ladder {

struct PipelineFlags {
  size_t pipeline_parallel_size = 0;  // 0: the lesson's default
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<size_t> stage_layers = {};  // transformer blocks of each stage; empty: cut by cost
  void add_to(CLI::App& app);
};

// Plans the pipeline. Throws UserError if the model cannot be cut in this way.
PipelinePlan plan_pipeline(const RunConfig& config, const ProcessGrid& grid,
                           const PipelineFlags& flags);

// A rank's place in the pipeline: its stage, and the part of the model that it has.
struct Stage {
  // Throws UserError if plan_pipeline() does.
  Stage(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags);
  const StageSchedule& schedule() const { return plan.schedule[index]; }
  size_t num_slots() const { return ladder::num_slots(schedule()); }
  PipelinePlan plan;  // the plan of all stages
  size_t index;
  Layout layout;
};

// Returns lines for the header, and draws the schedule. Throws UserError if it cannot.
std::string describe_pipeline(const RunConfig& config, const ProcessGrid& grid,
                              const PipelineFlags& flags);

}  // namespace ladder
