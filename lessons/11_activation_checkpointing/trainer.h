// Lesson 11: activation checkpointing. Backward computes again what forward does not keep.
#pragma once

#include "common/grid/process_grid.h"
#include "common/train/model_runner.h"
#include "common/train/model_state.h"
#include "lessons/11_activation_checkpointing/policy.h"

namespace ladder {

// CheckpointingTrainer trains on one device. Given the bytes that activations may take, it chooses
// what blocks drop, so that backward has to compute as little as possible again. (In all lessons
// --recompute chooses by hand.) [Chen16; Korthikanti22]
class CheckpointingTrainer {
 public:
  static constexpr LessonInfo kLesson = {
      "11_activation_checkpointing",
      "Trains a GPT-2 that computes activations again instead of keeping them."};

  struct Flags {
    size_t activation_memory = 0;  // bytes; 0: what --recompute says
    void add_to(CLI::App& app);
  };

  // Returns lines for the header that say what is kept and what is dropped.
  static std::string describe(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  // Allocates all memory that training needs. Throws UserError if activations do not fit.
  CheckpointingTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() { return state_; }
  StepResult step();
  double evaluate(size_t num_batches);

 private:
  TrainerContext context_;
  Layout layout_;
  ModelState state_;
  RecomputePlan plan_;
  ModelRunner model_;
};

}  // namespace ladder
