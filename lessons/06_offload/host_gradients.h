// Gradient shards on their way to the host.
#pragma once

#include <optional>

#include "common/comm/communicator.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// Copies this rank's shard of every unit's summed gradient into host memory while backward goes on;
// from the second micro-batch on it is added there to what the first has left.
class HostGradients {
 public:
  // shards: this rank's shards alone, in host memory.
  HostGradients(const TrainerContext& context, const Layout& layout, TensorView shards);
  // Elements of host workspace: the largest shard of a unit, where there is more than one
  // micro-batch a step.
  static size_t num_elements(const RunConfig& config, const Layout& layout);

  // A new step: the next gradient of each unit is its first.
  void begin_step() { num_taken_ = 0; }
  // As GradientShards wants it: copies the shard on a stream of its own, which is returned.
  Stream& take(size_t unit, Work& summed, ConstTensorView shard);
  // Returns when all is in host memory.
  void wait();

 private:
  // Adds what was copied last to the unit's shard.
  void add_arrived();

  const Layout& layout_;
  TensorView shards_;
  Tensor arriving_;             // empty where there is one micro-batch a step
  std::optional<size_t> unit_;  // whose gradient is in arriving_, not yet added
  size_t num_taken_ = 0;
  Stream copies_, host_{DeviceType::cpu};
};

}  // namespace ladder
