// The sum of gradients of hybrid shards: within a group in every micro-batch, between groups once.
#pragma once

#include <vector>

#include "lessons/04_zero2/gradients.h"

namespace ladder {

// ReplicatedShards sums each unit's gradient over the ranks of a shard group after every
// micro-batch, as lesson 04 does. After the last one it also sums the shard over the ranks that
// hold the same shard of other copies, as lesson 02 sums gradients, while backward goes on.
// [Zhao23 FSDP, section 3.2.2; Zhang22 MiCS]
class ReplicatedShards final : public GradientShards {
 public:
  // REQUIRES: what GradientShards requires; `replicas` are the ranks that hold the same shard;
  // wait() is called once after every num_micro_batches micro-batches.
  ReplicatedShards(const TrainerContext& context, ModelState& state, Communicator& shard_group,
                   Communicator& replicas, size_t num_micro_batches);

  // Keeps the last units, waits for the sums over replicas, and counts micro-batches from 0 again.
  void wait() override;

 protected:
  // Adds the shard; after the step's last micro-batch it also starts the sum over replicas, in the
  // background.
  Stream& keep(size_t unit, Work& sum, ConstTensorView shard) override;

 private:
  Communicator& replicas_;
  size_t num_micro_batches_;
  std::vector<size_t> kept_;   // how many micro-batches have added to each unit in this step
  std::vector<Work> started_;  // sums over replicas
};

}  // namespace ladder
