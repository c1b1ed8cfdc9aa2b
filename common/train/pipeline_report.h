// What a run says about its pipeline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.h"
#include "common/schedule/schedule.h"
#include "common/train/trainer.h"

namespace ladder {

// The units of each stage, what each stage does, and what the schedule is called.
struct PipelinePlan {
  std::vector<ModelPart> parts;
  Schedule schedule;
  std::string name;
};

// "h.3 to ln_f and classifier": the units of a stage.
std::string units_text(const Layout& layout);

// Lines for the header: the stages with their shares of the matrix products, their balance (mean /
// largest share), and the schedule drawn, where it fits a terminal.
std::string stages_text(const RunConfig& config, const PipelinePlan& plan);

// The schedule as SVG, as if all stages cost the same, and a backward twice a forward. Of the plan
// it needs schedule and name.
std::string drawing_of(const PipelinePlan& plan);
// Writes that to a file. UserError: the path cannot be
// written.
void write_drawing(const std::string& path, const PipelinePlan& plan);

// What a stage communicates in a step: for each message of the schedule R C elements, an activation
// or its gradient; and, where it adds up gradients with another stage, those of the shared units,
// or this rank's shards of them.
TrafficEntries pipeline_traffic(const RunConfig& config, const Layout& layout,
                                const StageSchedule& schedule, bool in_shards);

// Seconds that a stage spent in forward, in backward, and altogether from its first action to its
// last.
struct StageTimes {
  double forward = 0, backward = 0, all = 0;
};

// Those of all stages. Collective over the stages.
std::vector<StageTimes> times_of_stages(Communicator& stages, const StageTimes& own);

// Lines for the end, of the stages' times: the bubble measured, that of the schedule with the times
// of forward and backward measured, and that of equal stages whose backward takes twice as long as
// forward: (p - 1) / (m + p - 1), or of the naive schedule (p - 1) / p. "" where nothing was
// measured.
std::string bubble_text(const PipelinePlan& plan, const std::vector<StageTimes>& times);

}  // namespace ladder
