// What to keep: given the bytes that activations may take, which tensors blocks drop.
#pragma once

#include <vector>

#include "common/model/recompute.h"
#include "common/train/trainer/config.h"

namespace ladder {

// What one operation of a transformer block's forward (common/model/sublayer.h) costs.
struct OperationCost {
  size_t operation;  // its number in the block
  const char* name;
  size_t bytes;  // of its tensors, for one micro-batch
  double flops;  // operations to compute them again, of matrix products and all others
};
// Returns the costs of all operations, in the order of forward.
std::vector<OperationCost> operation_costs(const RunConfig& config);
// Returns those that the policy may drop: all but `out`, the input of the next block.
std::vector<OperationCost> droppable_costs(const RunConfig& config);

// What a plan takes.
struct PlanCost {
  size_t bytes = 0;  // of all activations of a micro-batch, those in shared memory too
  double flops = 0;  // operations that backward runs again for a micro-batch
};
PlanCost cost_of(const RunConfig& config, const RecomputePlan& plan);

// A decision: for each operation, in the order of droppable_costs(), the number of blocks that drop
// its tensors. If n blocks drop a tensor, the shared memory needs room for one of them, so n - 1
// are saved. And n - 1 are computed again, since nothing overwrites the last block's.
using DropCounts = std::vector<size_t>;
size_t saved_bytes(const std::vector<OperationCost>& costs, const DropCounts& counts);
double added_flops(const std::vector<OperationCost>& costs, const DropCounts& counts);

// Returns the counts, each at most num_blocks, that save at least `bytes` bytes and compute the
// fewest operations again. REQUIRES: it is possible.
DropCounts choose_drops(const std::vector<OperationCost>& costs, size_t num_blocks, size_t bytes);

// Returns the mode in which, of each operation, the first so many blocks drop the tensors.
RecomputeMode mode_of(const std::vector<OperationCost>& costs, const DropCounts& counts,
                      size_t num_blocks);

}  // namespace ladder
