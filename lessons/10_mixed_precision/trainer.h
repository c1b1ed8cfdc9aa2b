// Lesson 10: mixed precision. The model computes in bf16 or fp16, the optimizer in fp32.
#pragma once

#include <memory>

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_flags.h"
#include "lessons/10_mixed_precision/loss_scaler.h"
#include "lessons/10_mixed_precision/reduced_sync.h"

namespace ladder {

// MixedPrecisionTrainer is data parallel as in lesson 02, or with ZeRO-1 as in lesson 03.
// Parameters, activations and the gradients of activations are bf16 or fp16. Gradients of
// parameters, their sums, the norm, the moments and the masters that are updated are fp32.
// [Micikevicius18]
class MixedPrecisionTrainer final : public Trainer {
 public:
  struct Flags {
    LossScaleFlags scale = {};
    ZeroFlags zero = {};
    ReduceFlags reduce = {};
    bool no_master_weights = false;
    void add_to(FlagTable& flags);
  };
  static constexpr Lesson<Flags> kLesson = {
      {"10_mixed_precision", "Trains a model in bf16 or fp16, with fp32 where it matters.",
       Precisions::all}};

  MixedPrecisionTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  std::vector<Scalar> scalars() override;
  // If gradients overflow on any rank, all ranks skip the step: no update is made or
  // counted, and the learning rate's schedule stays where it is.
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  // Returns the slices of one kind. If they are gradients, it first divides them by the loss scale.
  std::vector<Slice> slices(std::string_view kind) override;
  // Throws an Error that names a rank unless all ranks have the same parameters to the bit.
  void check_replicas() override;

 private:
  double update(double norm);

  TrainerContext context_;
  Flags flags_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  Tensor reduced_;  // the gradients in --reduce-dtype; empty if that is their own dtype
  std::unique_ptr<GradientSync> sync_;
  LossScaler scaler_;
};

}  // namespace ladder
