// Lesson 03: ZeRO stage 1. The optimizer's state is sharded.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_flags.h"

namespace ladder {

// In Zero1Trainer every rank still has all parameters and all gradients, but only the moments of
// its shard. Gradients are reduce-scattered, each rank updates its shard of every unit, and the
// updated parameters are all-gathered. [Rajbhandari20, ZeRO, section 5.1: P_os]
class Zero1Trainer final : public Trainer {
 public:
  struct Flags {
    ZeroFlags zero = {.stage = 1};  // 0 is lesson 02, to compare with
    void add_to(FlagTable& flags) { zero.add_to(flags, "ZeRO"); }
  };
  static constexpr Lesson<Flags> kLesson = {
      {.name = "03_zero1",
       .description = "Trains a model on several ranks that share the optimizer's state (ZeRO-1).",
       .gives_matrices = true}};

  Zero1Trainer(const TrainerContext& context, const Flags& flags);
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
  std::unique_ptr<GradientSync> sync_;
};

}  // namespace ladder
