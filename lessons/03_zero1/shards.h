// Shards of units: summing gradients into them, updating one's own, collecting all for dumps.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// All but the moments is whole. Peers sum the gradients and read the parameters in place, where
// `registered` is.
StateShare zero1_share(const Layout& layout, MemorySource* registered);

// Sums the gradients of all ranks, unit by unit as backward finishes them. Each rank receives the
// sum of its own shard, in place; the rest of the flat buffer keeps what this rank had.
class GradientScatter {
 public:
  // REQUIRES: whole gradients. `reduced`: as BucketReducer's.
  GradientScatter(const Replica& replica, Communicator& world, TensorView reduced = {})
      : replica_(replica), world_(world), reduced_(reduced) {}

  // For the last micro-batch's backward: starts each unit's reduce_scatter once it is final.
  Hooks hooks(Stream& stream);
  // Returns when all have run.
  void wait(Stream& stream);

 private:
  const Replica& replica_;
  Communicator& world_;
  TensorView reduced_;
  std::vector<Work> started_;
};

// What one collective on every unit communicates.
Traffic traffic_of_all_units(const Layout& layout, DType dtype);

// AdamW on this rank's shard of one unit. Asynchronous.
void update_shard(Replica& replica, size_t unit, const AdamWStep& step);

// Brings the other ranks' shards of one unit's parameters, in the background.
// REQUIRES: whole parameters.
Work gather_unit(Replica& replica, Communicator& world, size_t unit);

// AdamW on this rank's shard of every unit; the other ranks' updated shards arrive meanwhile.
// REQUIRES: whole parameters.
void update_and_gather(Replica& replica, Communicator& world, const AdamWStep& step);

// Full tensors out of all ranks' shards, unit by unit in host memory. Rank 0 alone needs room for a
// whole unit, and it alone hears of the tensors.
class ShardCollector {
 public:
  ShardCollector(const Replica& replica, Communicator& world);
  // Bytes of host workspace on rank `rank`.
  static size_t num_bytes(const Layout& layout, DType dtype, size_t rank);

  // Collective. Synchronizes.
  void visit(TensorKind kind, const TensorSink& sink);

 private:
  const Replica& replica_;
  Communicator& world_;
  Tensor host_;
};

}  // namespace ladder
