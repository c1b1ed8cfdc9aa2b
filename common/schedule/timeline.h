// When everything in a pipeline schedule happens, and what follows from it: how long it takes, what
// is held, who is idle.
#pragma once

#include <utility>
#include <vector>

#include "common/schedule/schedule.h"

namespace ladder {

// The time from an action's beginning to its completion. A message, or reduce_embedding, begins
// when the stage comes to it, so its span includes the wait for the other stage.
struct Span {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};
// The spans of all actions, by stage and then by action. They may be simulated or measured.
using Timeline = std::vector<std::vector<Span>>;

// Returns the span from the first beginning to the last end.
Span extent_of(const Timeline& timeline);

// For how many micro-batches a stage holds activations: times, and the number from then on.
using HeldOverTime = std::vector<std::pair<double, size_t>>;
// A buffer is taken when forward begins, and free when backward, or its half `weight`, ends; of a
// chunk without backward when the output has been sent. Each chunk of a micro-batch counts.
// REQUIRES: the spans are those of the stage's actions.
HeldOverTime held_over_time(const StageSchedule& stage, const std::vector<Span>& spans);

// The bubble is the share of time, from 0 to 1, in which stages run neither forward nor backward.
// (Each half of backward counts as backward.)
// With p equal stages, m micro-batches and free messages, that of GPipe and 1F1B is
// (p - 1) / (m + p - 1). Some papers divide by the time of work instead of all time; then it is
// (p - 1) / m.
struct Bubble {
  std::vector<double> idle;  // the idle share of each stage
  double overall = 0;        // the mean over the stages
};
Bubble bubble_of(const Schedule& schedule, const Timeline& timeline);

// Returns the longest of the stages' spans from the beginning of their first work to the end of
// their last. Papers whose optimizer does not wait for all stages measure a step by it. [Qi23]
double longest_stage(const Schedule& schedule, const Timeline& timeline);

}  // namespace ladder
