// Shards: each rank has the optimizer's state for its part of every unit only.
#pragma once

#include <vector>

#include "common/comm/communicator.h"
#include "common/train/trainer/gradient_sync.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// ShardSync is ZeRO-1: each rank receives the sum of its shard of the gradients, updates its shard
// of the parameters, and receives the shards that the other ranks have updated.
// [Rajbhandari20, section 5.1]
class ShardSync final : public GradientSync {
 public:
  // `ranks` are those that hold the same part of the model. `gradients` is the flat buffer that has
  // the gradients when they become final; if it is empty, they are in the state's own gradients.
  // REQUIRES: the state has whole parameters and gradients, and this rank's shards of the moments.
  ShardSync(ModelState& state, Communicator& ranks, TensorView gradients = {});

  // The hooks start each unit's reduce_scatter, in place, when its gradient is final.
  Hooks hooks() override;
  void wait() override;
  // Returns this rank's shard. The rest of the unit still has the gradient of this rank alone.
  TensorView summed(size_t unit) const override;
  double update(double norm) override;

 private:
  ModelState& state_;
  Communicator& ranks_;
  TensorView gradients_;
  std::vector<Work> started_;
};

// Updates this rank's shard of every unit that is trained. Each unit is gathered from all ranks
// while the next one is updated. Returns the learning rate, when the gathers have been waited for
// on the state's stream. REQUIRES: the state has whole parameters.
double update_and_gather(ModelState& state, Communicator& ranks, double norm);

// Begins to gather the other ranks' shards of one unit's trained part, in the background.
// REQUIRES: the state has whole parameters.
Work gather_unit(ModelState& state, Communicator& ranks, size_t unit);

}  // namespace ladder
