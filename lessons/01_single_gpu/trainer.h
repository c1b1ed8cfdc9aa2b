// Lesson 01: one device holds everything.
#pragma once

#include "common/train/model_runner.h"
#include "common/train/model_state.h"

namespace ladder {

// A global batch that is too large for the memory of one device runs as several micro-batches, one
// after the other, whose gradients are accumulated.
class SingleGpuTrainer {
 public:
  static constexpr LessonInfo kLesson = {"01_single_gpu", "Trains a GPT-2 on one device."};

  struct Flags {
    void add_to(CLI::App&) {}  // the common flags are all
  };

  // Allocates everything.
  SingleGpuTrainer(const TrainerContext& context, const Flags&);
  // Gives the parameters their first values.
  void initialize() { state_.initialize(); }
  // One update from the next global batch.
  StepResult step();
  // The mean loss over global batches of the validation split.
  double evaluate(size_t num_batches);
  // What it keeps, for dumps and samples.
  std::vector<Slice> slices(std::string_view kind) const { return state_.slices(kind); }

 private:
  TrainerContext context_;
  Layout layout_;      // where each tensor is in the flat buffers
  ModelState state_;   // parameters, gradients, and what AdamW keeps
  ModelRunner model_;  // forward and backward, and the activations between them
};

}  // namespace ladder
