// What to keep: given the bytes that activations may take, which tensors blocks drop.
#pragma once

#include <vector>

#include "common/model/recompute.h"
#include "common/train/config.h"

namespace ladder {

// What one step of a transformer block's forward computes.
struct StepCost {
  BlockStep::Index step;
  const char* name;
  size_t bytes;  // of its tensors, for one micro-batch
  double flops;  // operations to compute them again, of matrix products and all others
};
// Returns the costs of all steps but `out`, in the order of forward. This lesson's policy always
// keeps `out`, the input of the next block.
std::vector<StepCost> step_costs(const RunConfig& config);

// Returns the bytes of all activations of lesson 01, which drops nothing.
size_t activation_bytes(const RunConfig& config);

// A decision: for each step, in the order of step_costs(), the number of blocks that drop its
// tensors. If n blocks drop a tensor, the shared memory needs room for one of them, so n - 1 are
// saved. And n - 1 are computed again, since nothing overwrites the last block's.
using DropCounts = std::vector<size_t>;
size_t saved_bytes(const std::vector<StepCost>& costs, const DropCounts& counts);
double added_flops(const std::vector<StepCost>& costs, const DropCounts& counts);

// Returns the counts, each at most num_blocks, that save at least `bytes` with the fewest
// operations. REQUIRES: it is possible.
DropCounts choose_drops(const std::vector<StepCost>& costs, size_t num_blocks, size_t bytes);

// Returns the plan in which, of each step, the first so many blocks drop the tensors.
RecomputePlan plan_of(const std::vector<StepCost>& costs, const DropCounts& counts,
                      size_t num_blocks);

}  // namespace ladder
