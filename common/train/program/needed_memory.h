// Finds the rank that needs most memory. Where ranks hold different parts of a model, the others
// need less, so this rank decides whether a run fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/train/program/prediction.h"

namespace ladder {

// The largest predicted peaks by category, in bytes, and the ranks that have them.
struct NeededMemory {
  MemoryUse device, host;
  size_t device_rank = 0, host_rank = 0;

  // Takes the peaks of a rank where they are larger than all before.
  void consider(size_t rank, const MemoryUse& its_device, const MemoryUse& its_host);
};

// Predicts for the first rank of each stage of a pipeline, or for rank 0 without one: stages differ
// in what they need, and little else does. `program` is planned for `config`.
NeededMemory memory_of_stages(const Program& program, const RunConfig& config, size_t num_ranks);

// A function that returns the values of all ranks, in rank order, given those of this rank:
// Job::all_gather.
using AllGather = std::function<std::vector<uint64_t>(const std::vector<uint64_t>&)>;

// Returns the predictions with the largest totals over all ranks, for the device and for the host.
// If several ranks have the same total, the first of them counts. Collective.
NeededMemory largest_memory(const Prediction& prediction, const AllGather& all_gather);

}  // namespace ladder
