// Looks for a fast pipeline schedule, given how long everything takes and how much memory there is.
#pragma once

#include <vector>

#include "common/schedule/build.h"

namespace ladder {

// What a schedule is looked for.
struct ScheduleProblem {
  ChunkPlacement placement;
  size_t num_micro_batches = 1;
  std::vector<VirtualStageTimes> times;  // by virtual stage
  double message = 0;                    // the time of a message
  // By stage: the micro-batches in flight for which there is memory. Each chunk counts.
  std::vector<size_t> max_buffers;
  bool splits = true;  // whether backward may run in two halves
  // The part of a buffer that is occupied between the halves of backward. 1 for the lessons, whose
  // buffers stay whole until the half for the weights.
  double kept_for_weights = 1;
  Links links = Links::many;
  // Whether stages end a step together, so that it takes as long as the whole timeline. If not, it
  // takes as long as the longest_stage().
  bool ends_together = true;
};

// Returns how long a step takes with this work; infinity if its stages wait for each other for
// ever, if messages are not received in the order of sending, or if it needs more memory than there
// is.
double time_of(const ScheduleProblem& problem, const Schedule& work);

// Returns the fastest work that it finds, and among those that are equally fast the one that holds
// least: no slower than any of `known` that fits into the memory.
// REQUIRES: without problem.splits none of `known` has halves.
// First it makes lists by itself, each by a rule: a stage does what it can do earliest, and halves
// for the weights where it would wait otherwise. Then it moves single actions of the best list
// forward or back, as long as that makes it faster. For each chunk, each kind of work goes through
// the micro-batches in order. The result depends on the arguments alone. The work is empty if
// nothing fits, which needs fewer buffers than chunks on some stage. `max_trials`: the lists that
// it tries in the second part.
Schedule find_work(const ScheduleProblem& problem, const std::vector<Schedule>& known,
                   size_t max_trials);

}  // namespace ladder
