// Lesson 05: ZeRO stage 3. Parameters are sharded too.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/04_zero2/gradients.h"
#include "lessons/05_zero3/gather.h"

namespace ladder {

// In Zero3Trainer every rank has only the parameters, gradients and moments of its shard. A unit's
// parameters are gathered for its forward, and again for its backward. [Rajbhandari20, ZeRO,
// section 5.3: P_os+g+p; Zhao23, FSDP]
class Zero3Trainer final : public Trainer {
 public:
  struct Flags {
    GatherOptions gather;
    void add_to(FlagTable& flags) { gather.add_to(flags, "ZeRO-3"); }
  };
  static constexpr Lesson<Flags> kLesson = {
      {.name = "05_zero3",
       .description = "Trains a model on several ranks that share parameters, gradients and the "
                      "optimizer's state (ZeRO-3, FSDP).",
       .gives_matrices = true}};

  Zero3Trainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  size_t most_gathered() const { return gatherer_.most_gathered(); }

 private:
  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  UnitGatherer gatherer_;
  GradientShards sync_;
};

}  // namespace ladder
