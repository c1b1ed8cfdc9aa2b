// Makes a schedule from the order of the work alone.
#pragma once

#include <vector>

#include "common/schedule/placement.h"
#include "common/schedule/simulate.h"

namespace ladder {

// Returns the schedule in which every stage does the work of `work` in that order: forwards,
// backwards and halves of backward, of which only kind, micro-batch and chunk are read. What else a
// schedule needs is added: a receive right before the work that reads the message, a send right
// after the work that makes it, and for each micro-batch and chunk the lowest buffer that is free.
// If `reduces_embedding`, the stages of the first and the last virtual stage end with
// reduce_embedding, unless they are one stage.
Schedule complete(const Schedule& work, const ChunkPlacement& placement, bool reduces_embedding);

// The time that a virtual stage takes for one micro-batch, in any unit. A backward that is not
// split takes as long as its two halves.
struct VirtualStageTimes {
  double forward = 1, input = 1, weight = 1;
};

// Returns the costs of a placement's virtual stages. A message takes `message`, and
// reduce_embedding nothing. REQUIRES: there are as many times as virtual stages.
Costs costs_of(const ChunkPlacement& placement, const std::vector<VirtualStageTimes>& times,
               double message);

}  // namespace ladder
