// Lesson 04: ZeRO stage 2. Gradients are sharded too.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/04_zero2/gradients.h"

namespace ladder {

// In Zero2Trainer every rank still has all parameters, but only the gradients and moments of its
// shard. A unit's whole gradient exists only while its backward runs. [Rajbhandari20, ZeRO, section
// 5.2: P_os+g]
class Zero2Trainer final : public Trainer {
 public:
  struct Flags {
    void add_to(FlagTable&) {}
  };
  static constexpr Lesson<Flags> kLesson = {
      {.name = "04_zero2",
       .description = "Trains a model on several ranks that share gradients and the optimizer's "
                      "state (ZeRO-2).",
       .gives_matrices = true}};

  Zero2Trainer(const TrainerContext& context, const Flags&);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  // Throws an Error that names a rank unless all ranks have the same parameters to the bit.
  void check_replicas() override;

 private:
  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  GradientShards sync_;
};

}  // namespace ladder
