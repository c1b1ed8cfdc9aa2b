// Makes the order of work in a pipeline by a rule, one action after the other.
#pragma once

#include "common/schedule/search.h"

namespace ladder {

// A rule for the choice of a stage's next action.
struct GreedyRule {
  bool splits = true;  // whether backward runs in two halves
  // A stage does a half for the weights if it would wait otherwise for more than this part of the
  // time that the half takes.
  double patience = 0;
  // Whether forward comes before backward if both could begin.
  bool prefers_forward = false;
  // Stage s holds at most warm_up * (p - s) + extra micro-batches, counted for each chunk, even if
  // there is memory for more. 0: as many as there is memory for.
  size_t warm_up = 0, extra = 0;
};

// Returns the work by the rule. It is empty if the rule leads nowhere: stages have filled their
// buffers with micro-batches that cannot go on.
Schedule greedy_work(const ScheduleProblem& problem, const GreedyRule& rule);

}  // namespace ladder
