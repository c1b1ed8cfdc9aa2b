// Which activations wait for backward in host memory, and where they lie on the device meanwhile.
#pragma once

#include <optional>
#include <vector>

#include "common/model/recompute.h"

namespace ladder {

// What backward needs to go through a group of transformer blocks (recompute.h) is a *set*: the
// group's input, which is the `out` of the group before, and all that its blocks keep. Most groups
// are one block. With offloading, only two sets are on the device: sets take turns in two places.
// While forward computes a group's set in one place, the set before it is copied from the other
// place to the host. In backward it is the other way round.
//
// Two tensors are no part of any set, and stay on the device with their micro-batch: the input of
// the first group and the output of the last. (A pipeline stage receives one and sends the other.)
class OffloadPlan {
 public:
  static constexpr size_t kTurns = 2;

  // Offloads nothing.
  OffloadPlan() = default;
  // `recompute` is the plan for a part with `num_blocks` transformer blocks, and `num_in_flight` is
  // the number of micro-batches that may be between forward and backward. Throws a UserError if
  // blocks write an `out` again that they keep, as with --recompute whole.
  OffloadPlan(const RecomputePlan& recompute, size_t num_blocks, size_t num_in_flight);

  size_t num_sets() const { return groups_.empty() ? 0 : groups_.back() + 1; }
  // Returns the set of what the operation of this block computes, or nothing if that does not wait
  // on the host: then the block drops it, or it stays with its micro-batch.
  std::optional<size_t> set_of(size_t block, size_t operation) const;
  // Returns the number of the block's group, which is also that of the set that it needs.
  size_t group_of(size_t block) const { return groups_.at(block); }
  bool ends_group(size_t block) const {
    return block + 1 == groups_.size() || groups_[block + 1] != groups_[block];
  }
  // Returns whether the set is copied to the host. With one micro-batch in flight the last two are
  // not: nothing overwrites them before backward needs them.
  bool is_copied(size_t set) const { return num_in_flight_ > 1 || set + kTurns <= groups_.back(); }

 private:
  RecomputePlan recompute_;
  std::vector<size_t> groups_;  // by block
  size_t num_in_flight_ = 1;
};

}  // namespace ladder
