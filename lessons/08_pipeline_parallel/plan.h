// How a model is spread over the stages of a pipeline, and what that communicates.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/train/named_files.h"
#include "common/train/pipeline_report.h"
#include "lessons/08_pipeline_parallel/schedules.h"

namespace ladder {

struct PipelineFlags {
  size_t pipeline_parallel_size = 0;  // 0: what the lesson takes by itself
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<size_t> stage_layers = {};  // empty: cut by cost
  std::string draw = {};                  // path of an SVG; empty = none
  void add_to(CLI::App& app);
  std::vector<NamedFile> outputs() const { return {{"--draw", draw}}; }
};

// UserError where the model cannot be cut so.
PipelinePlan plan_pipeline(const RunConfig& config, const ProcessGrid& grid,
                           const PipelineFlags& flags);

// A rank's place: the stage of the pipeline, and what the rank has of the model.
struct Stage {
  // UserError as plan_pipeline().
  Stage(const RunConfig& config, const ProcessGrid& grid, const PipelineFlags& flags);
  const StageSchedule& schedule() const { return plan.schedule[index]; }
  size_t num_slots() const { return ladder::num_slots(schedule()); }

  PipelinePlan plan;  // of all stages
  size_t index;
  Layout layout;
};

// Lines for the header, and the file of --draw. UserError: it cannot be written.
std::string describe_pipeline(const RunConfig& config, const ProcessGrid& grid,
                              const PipelineFlags& flags);

}  // namespace ladder
