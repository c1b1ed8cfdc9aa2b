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

// Returns the schedule without the backward of the virtual stages before `first`, where nothing is
// trained: without their work, without its messages, and without the gradient that `first` would
// send. A micro-batch leaves such a chunk's buffer with its output, which the next virtual stage
// receives. So the buffers are dealt out anew, each micro-batch again gets the lowest that is free,
// and the next one waits for the buffer (simulate.h). Where stages would wait for each other for
// ever, as in a ring, chunks hold their last micro-batches longer: as few as are enough, and none
// longer than in `schedule`.
Schedule without_backward(const Schedule& schedule, const ChunkPlacement& placement, size_t first,
                          Links links);

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
