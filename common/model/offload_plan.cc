#include "common/model/offload_plan.h"

#include "kernels/runtime/check.h"

namespace ladder {

OffloadPlan::OffloadPlan(const RecomputePlan& recompute, size_t num_blocks, size_t num_in_flight)
    : recompute_(recompute), num_in_flight_(num_in_flight) {
  size_t group = 0;
  BlockOperations kept;  // by the blocks of the group so far
  for (size_t block = 0; block < num_blocks; ++block) {
    // The place of this block's `out` has the input of another group when the block runs again.
    if (recompute.ends_group(block) && recompute.recomputed(block)[kBlockOutput]) {
      throw UserError("--offload-activations with --recompute whole: take block");
    }
    groups_.push_back(group);
    for (size_t operation = 0; operation < kept.size(); ++operation) {
      if (recompute.drops(block, operation)) continue;
      check(!kept[operation], "OffloadPlan: two blocks of a group keep the same tensor");
      kept.set(operation);
    }
    if (!recompute.ends_group(block)) continue;
    ++group;
    kept.reset();
  }
}

std::optional<size_t> OffloadPlan::set_of(size_t block, size_t operation) const {
  if (groups_.empty() || recompute_.drops(block, operation)) return std::nullopt;
  if (operation != kBlockOutput) return groups_[block];
  if (block + 1 == groups_.size()) return std::nullopt;
  return groups_[block] + 1;
}

}  // namespace ladder
