// What --attention-kernel and --objective need of a run: which attention computes what they ask
// for.
#pragma once

#include <string>

#include "common/cluster/cluster.h"
#include "common/grid/process_grid.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Returns the kernel that --attention-kernel names. Throws a UserError if there is none.
AttentionKernel parse_attention_kernel(const std::string& name);

// Throw a UserError that begins with the flag if the run's attention kernel, or attention without a
// causal mask, cannot be had. `cluster` is that of the virtual device; null on a real one.
void check_attention_kernel(const RunConfig& config, const ProcessGrid& grid, bool is_virtual);
void check_objective(const RunConfig& config, const ProcessGrid& grid, const Cluster* cluster);

}  // namespace ladder
