// Makes the order of work in a pipeline by a rule, one action after the other.
#pragma once

#include "common/schedule/search.h"

namespace ladder {

// The micro-batches of a stage that have begun and not ended, where each chunk counts.
struct Held {
  size_t whole = 0, halved = 0;  // before their backward, and between its halves

  void add(ActionKind work);
  // Returns the buffers that they take.
  double buffers(double kept_for_weights) const {
    return static_cast<double>(whole) + kept_for_weights * static_cast<double>(halved);
  }
};

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
  // The first gradient goes back through all stages, and each that delays it keeps the first stage
  // idle. So before its first backward a stage runs no forward if it would have to wait for that
  // backward no longer than this part of the forward's time. And from then on it has at most as
  // many micro-batches before their backward as then. 0: it does neither.
  double first_wait = 0;
  // Whether a stage rather waits than let a half for the weights delay its last backward.
  bool spares_last = false;
};

// Returns the work by the rule. It is empty if the rule leads nowhere: stages have filled their
// buffers with micro-batches that cannot go on.
Schedule greedy_work(const ScheduleProblem& problem, const GreedyRule& rule);

}  // namespace ladder
