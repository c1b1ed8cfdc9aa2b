// Plans how a model is divided among the stages of a pipeline.
#pragma once

#include <memory>
#include <vector>

#include "common/grid/process_grid.h"
#include "common/pipeline/plan.h"
#include "common/train/trainer/flag_value.h"
#include "lessons/08_pipeline_parallel/schedules.h"

namespace ladder {

struct PipelineFlags {
  size_t pipeline_parallel_size = 0;  // 0: the lesson's default
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<size_t> stage_layers = {};  // transformer blocks of each stage; empty: cut by cost
  void add_to(FlagTable& flags);
};

// Plans the pipeline. Throws UserError if the model cannot be cut in this way.
std::shared_ptr<const PipelinePlan> plan_pipeline(const RunConfig& config, const ProcessGrid& grid,
                                                  const PipelineFlags& flags);

}  // namespace ladder
