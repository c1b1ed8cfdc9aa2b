// The text, the picture and the numbers that a run gives about its pipeline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.h"
#include "common/pipeline/plan.h"

namespace ladder {

// Names the units of a stage, as in "h.3 to ln_f and classifier", or in "wte to h.0, h.4" if it has
// two model chunks.
std::string units_text(const Layout& layout);

// Returns lines for the header: the stages with their shares of the matrix products, their balance
// (the mean share divided by the largest one), and a drawing of the schedule if it fits a terminal.
std::string stages_text(const RunConfig& config, const PipelinePlan& plan);

// Draws the schedule as SVG, with stages that all cost the same and a backward that costs twice a
// forward. Of the plan it needs schedule and name.
std::string drawing_of(const PipelinePlan& plan);
// Writes drawing_of(plan) to the file of --draw, or csv_of(plan.schedule) if its name ends with
// .csv, unless that file is for a simulated step, or not given. Throws UserError if the file cannot
// be written.
void draw_schedule(const RunConfig& config, const PipelinePlan& plan);

// The seconds that a stage spent in forward, in backward (or in its first half), and in the second
// half of backward. `all` is the time from the beginning of its first action to the end of its last
// one, and `classifier` is a part of forward. `message` is the shortest receive, one that found its
// message waiting; 0 if there was none. All others are sums over so many steps.
struct StageTimes {
  double forward = 0, backward = 0, weight = 0, all = 0;
  double classifier = 0, message = 0, steps = 0;
};

// Returns the times of all stages, given this stage's own. Collective over the stages.
std::vector<StageTimes> times_of_stages(Communicator& stages, const StageTimes& own);

// Returns lines for the end of a run, with three bubbles: the one that was measured, the one that
// the schedule has with the measured times of forward and backward, and the one of equal stages
// whose backward takes twice as long as forward. With p stages and m micro-batches the last one is
// (p - 1) / (m + p - 1), or (p - 1) / p for the naive schedule. The text is empty if nothing was
// measured.
std::string bubble_text(const PipelinePlan& plan, const std::vector<StageTimes>& times);

}  // namespace ladder
