// Gradient shards that are copied to the host.
#pragma once

#include <optional>

#include "lessons/04_zero2/gradients.h"

namespace ladder {

// HostGradients copies this rank's shard of every unit's summed gradient to host memory while
// backward goes on. From the second micro-batch on, the host adds it to the shard that is there.
class HostGradients final : public GradientShards {
 public:
  // Allocates the scratch of GradientShards with three buffers: while one unit's gradient is
  // computed, that of the last unit is summed, and that of the unit before it is copied. If a step
  // has more than one micro-batch, it also allocates host workspace for the largest shard of a
  // unit. REQUIRES: the state has its gradients on the host.
  HostGradients(const TrainerContext& context, ModelState& state, Communicator& ranks);

  // Begins a step: the next gradient of each unit overwrites that of the last step.
  void begin_step() { num_kept_ = 0; }
  // Returns when all gradients are in host memory.
  void wait() override;

 private:
  // Copies the shard to the host, on the stream `copies_`.
  Stream& keep(size_t unit, Work& sum, ConstTensorView shard) override;
  // Adds the shard in arriving_ to the unit's gradient on the host.
  void add_arrived();

  Tensor arriving_;             // empty if a step has one micro-batch
  std::optional<size_t> unit_;  // the unit whose shard is in arriving_ and not yet added
  size_t num_kept_ = 0;         // shards that were copied in this step
  Stream copies_, host_{DeviceType::cpu};
};

}  // namespace ladder
