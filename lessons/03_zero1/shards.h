// Shards: each rank owns the optimizer's state of its part of every unit.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

// What collectives on every unit communicate, one call each.
Traffic traffic_of_all_units(const Layout& layout, DType dtype);

// ZeRO-1: each rank receives the sum of its own shard of the gradients, updates its shard of the
// parameters, and receives the shards that the other ranks have updated. [Rajbhandari20, 5.1]
class ShardSync final : public GradientSync {
 public:
  // REQUIRES: a state with whole parameters and gradients and this rank's shards of the moments.
  // `ranks`: those that hold the same part of the model. `gradients`: as BucketSync's.
  ShardSync(ModelState& state, Communicator& ranks, TensorView gradients = {});

  // Starts each unit's reduce_scatter, in place, once its gradient is final.
  Hooks hooks() override;
  void wait() override;
  // This rank's shard; the rest of the buffer has what this rank's own backward left there.
  TensorView summed(size_t unit) const override;
  void update(const AdamWStep& step) override;

 private:
  ModelState& state_;
  Communicator& ranks_;
  TensorView gradients_;
  std::vector<Work> started_;
};

// AdamW on this rank's shard of every unit of `state`; the other ranks' updated shards arrive
// meanwhile. REQUIRES: whole parameters.
void update_and_gather(ModelState& state, Communicator& ranks, const AdamWStep& step);

// Brings the other ranks' shards of one unit's parameters, in the background.
// REQUIRES: whole parameters.
Work gather_unit(ModelState& state, Communicator& ranks, size_t unit);

}  // namespace ladder
