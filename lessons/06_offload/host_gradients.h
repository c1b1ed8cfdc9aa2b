// Gradient shards on their way to the host.
#pragma once

#include <optional>

#include "lessons/04_zero2/gradients.h"

namespace ladder {

// Copies this rank's shard of every unit's summed gradient into host memory while backward goes on;
// from the second micro-batch on it is added there to what the earlier ones have left.
class HostGradients final : public GradientShards {
 public:
  // REQUIRES: a state with gradients on the host. Allocates besides the scratch of GradientShards,
  // with three slots, host workspace for the largest shard of a unit where a step has more than one
  // micro-batch. Three slots: while one unit's gradient is computed, the next one's is summed and
  // the one after that is copied.
  HostGradients(const TrainerContext& context, ModelState& state, Communicator& ranks);

  // A new step: the next gradient of each unit is its first.
  void begin_step() { num_kept_ = 0; }
  // Returns when all gradients are in host memory.
  void wait() override;

 private:
  // Copies on a stream of its own.
  Stream& keep(size_t unit, Work& sum, ConstTensorView shard) override;
  // Adds what was copied last to the unit's shard.
  void add_arrived();

  Tensor arriving_;             // empty where there is one micro-batch a step
  std::optional<size_t> unit_;  // whose gradient is in arriving_, not yet added
  size_t num_kept_ = 0;
  Stream copies_, host_{DeviceType::cpu};
};

}  // namespace ladder
