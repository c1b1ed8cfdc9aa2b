// A step in the file of --trace: what every rank computed and communicated when.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/io/svg.h"

namespace ladder {

// What a rank did from one time to another.
struct StepSpan {
  size_t row = 0;  // of its rank
  bool computes = false;
  std::string what, unit;   // "backward" of "h.3", "gradient all_reduce" of ""
  double from = 0, to = 0;  // microseconds
};
struct RankStep {
  std::vector<std::string> rows;  // their names in the trace, those that compute first
  std::vector<StepSpan> spans;    // in the order in which they begin
};
struct TracedStep {
  size_t step = 0;  // 1 is the first of the run
  std::map<size_t, RankStep> ranks;
};

// Returns step `step` of the text of a trace; 0 stands for the last one. A rank's step begins where
// its last update of the step before ends, and ends with its own last update. Control messages
// (checks and norms, a few bytes each) are left out if the trace calls them so, and so is what is
// computed within a unit. Rows without a span are left out. UserError: no trace of a training run,
// or it has no such step.
TracedStep step_of(const std::string& trace, size_t step);

// What is drawn in one colour.
struct SpanKind {
  Colour colour;
  std::string name;
};
SpanKind kind_of(const StepSpan& span);

}  // namespace ladder
