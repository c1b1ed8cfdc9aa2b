// The memory of the rank that needs most: where ranks hold different parts of a model, its is the
// one that a machine must have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/train/prediction.h"

namespace ladder {

// Predicted peak bytes by category, and the ranks whose they are.
struct NeededMemory {
  MemoryUse device, host;
  size_t device_rank = 0, host_rank = 0;
};

// The numbers of all ranks, from those of this one: Job::all_gather.
using AllGather = std::function<std::vector<uint64_t>(const std::vector<uint64_t>&)>;

// Of all ranks' predictions those with the largest totals; of equal ones the first. Collective.
NeededMemory largest_memory(const Prediction& prediction, const AllGather& all_gather);

}  // namespace ladder
