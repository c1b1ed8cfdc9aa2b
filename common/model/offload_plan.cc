#include "common/model/offload_plan.h"

#include "kernels/runtime/check.h"

namespace ladder {

OffloadPlan::OffloadPlan(const RecomputePlan& recompute, size_t num_blocks, size_t num_in_flight)
    : recompute_(recompute), num_in_flight_(num_in_flight) {
  size_t group = 0;
  BlockSteps kept;  // by the blocks of the group so far
  for (size_t block = 0; block < num_blocks; ++block) {
    // The place of this block's `out` has the input of another group when the block runs again.
    if (recompute.ends_group(block) && recompute.recomputed(block)[BlockStep::out]) {
      throw UserError("--offload-activations with --recompute whole: take block");
    }
    groups_.push_back(group);
    for (size_t step = 0; step < BlockStep::kCount; ++step) {
      if (recompute.drops(block, step)) continue;
      check(!kept[step], "OffloadPlan: two blocks of a group keep the same tensor");
      kept.set(step);
    }
    if (!recompute.ends_group(block)) continue;
    ++group;
    kept.reset();
  }
}

std::optional<size_t> OffloadPlan::set_of(size_t block, size_t step) const {
  if (groups_.empty() || recompute_.drops(block, step)) return std::nullopt;
  if (step != BlockStep::out) return groups_[block];
  if (block + 1 == groups_.size()) return std::nullopt;
  return groups_[block] + 1;
}

}  // namespace ladder
