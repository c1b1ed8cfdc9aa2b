// Lesson 06: CPU offload. Host memory has what only the update needs, and the CPU makes the update.
#pragma once

#include <memory>

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/05_zero3/gather.h"
#include "lessons/06_offload/host_gradients.h"

namespace ladder {

// OffloadTrainer extends ZeRO stage 2 or 3. Gradient shards are copied to the host as soon as they
// are summed, AdamW runs there on the rank's shards, and updated parameters are copied back. With
// stage 3 the parameters' shards may be only on the host: each is copied to the device just before
// it is gathered. [Ren21, ZeRO-Offload; Rajbhandari21, ZeRO-Infinity]
class OffloadTrainer final : public Trainer {
 public:
  struct Flags {
    int zero_stage = 2;
    bool offload_parameters = false;
    GatherOptions gather;  // for stage 3
    void add_to(FlagTable& flags);
  };
  static constexpr Lesson<Flags> kLesson = {{"06_offload",
                                             "Trains a model with the optimizer, and if wanted the "
                                             "parameters, in host memory (ZeRO-Offload).",
                                             Precisions::full}};

  OffloadTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error that names a rank unless all ranks have the same parameters to the bit.
  void check_replicas() override;

 private:
  // Returns the hooks that give weights to one micro-batch. With stage 2 there are none: weights
  // are in the flat buffer.
  Hooks weights(const std::vector<Use>& walk);
  // Updates on the host. Each unit's parameters are copied to the device, and gathered from the
  // other ranks, while the next unit is updated. Synchronizes the stream.
  double update(double norm);

  TrainerContext context_;
  Flags flags_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  std::unique_ptr<UnitGatherer> gatherer_;  // null with stage 2
  HostGradients sync_;
};

}  // namespace ladder
