// Lesson 01: one device holds everything.
#pragma once

#include "common/train/trainer/model_runner.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// SingleGpuTrainer trains on one device. A global batch that is too large for its memory runs as
// several micro-batches, one after the other, whose gradients are added up.
class SingleGpuTrainer final : public Trainer {
 public:
  struct Flags {
    void add_to(FlagTable&) {}  // this lesson has only the common flags
  };
  static constexpr Lesson<Flags> kLesson = {{.name = "01_single_gpu",
                                             .description = "Trains a model on one device.",
                                             .is_distributed = false,
                                             .gives_matrices = true}};

  // Allocates all memory that training needs.
  SingleGpuTrainer(const TrainerContext& context, const Flags&);
  // Returns what the trainer keeps from step to step: dumps, samples and checkpoints read it.
  ModelState& state() override { return state_; }
  // Makes one update from the next global batch.
  StepResult step() override;
  // Returns the mean loss over global batches of the validation split.
  double evaluate(size_t num_batches) override;

 private:
  TrainerContext context_;
  Layout layout_;      // where each tensor is in the flat buffers
  ModelState state_;   // parameters, gradients, and what AdamW keeps
  ModelRunner model_;  // forward and backward, and the activations between them
};

}  // namespace ladder
