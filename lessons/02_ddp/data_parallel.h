// What every data-parallel trainer does alike: a rank's rows, sums over ranks, evaluation.
#pragma once

#include "common/comm/communicator.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// The sum of a number over the ranks of a group, in rank order.
double sum_over(Communicator& group, double number);

// The parameters that `which` picks are copies on all ranks of the group.
struct Copies {
  Communicator& group;
  std::function<bool(const Parameter&)> which = [](const Parameter&) { return true; };
};
// Throws Error unless all copies are the same to the bit, naming the ranks (by their number in the
// world) whose copies are not those of most. Collective over all groups: a rank looks at each of
// them before it throws, since its peers on one axis may have found nothing on another.
void check_copies(Replica& replica, const std::vector<Copies>& all);

// A rank's replica, and the ranks that share the global batch with it: rank r of N runs the r-th
// N-th of the rows.
class DataParallel {
 public:
  DataParallel(Replica& replica, Communicator& world) : replica_(replica), world_(world) {}

  size_t num_rows() const { return config().global_batch_size / world_.size(); }
  size_t first_row() const { return world_.rank() * num_rows(); }
  // The next micro-batch that begins behind `row` rows of this rank is its last of the step.
  bool is_last(size_t row) const { return row + config().micro_batch_size == num_rows(); }

  // The global gradient norm. REQUIRES: this rank's shards of the gradients are summed.
  double norm() const;
  // Mean loss over global batches of the validation split. `hooks` makes those of a micro-batch.
  double evaluate(
      size_t num_batches, const std::function<Hooks()>& hooks = [] { return Hooks(); }) const;

 private:
  const RunConfig& config() const { return replica_.context.config; }

  Replica& replica_;
  Communicator& world_;
};

}  // namespace ladder
