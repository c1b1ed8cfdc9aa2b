// Lesson 11: activation checkpointing. Backward computes again what forward does not keep.
#pragma once

#include "common/grid/process_grid.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/11_activation_checkpointing/policy.h"

namespace ladder {

// CheckpointingTrainer is lesson 01's trainer, whose model drops activations and computes them
// again in backward. Given the bytes that activations may take, it chooses what blocks drop, so
// that backward has to compute as little as possible again. (In all lessons --recompute chooses by
// hand.) [Chen16; Korthikanti22]
class CheckpointingTrainer final : public Trainer {
 public:
  struct Flags {
    size_t activation_memory = 0;  // bytes; 0: what --recompute says
    void add_to(FlagTable& flags);
  };

  // Returns lines for the header that say what is kept and what is dropped.
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan&);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "11_activation_checkpointing",
               .description =
                   "Trains a model that computes activations again instead of keeping them.",
               .is_distributed = false},
      .describe = describe};

  // Allocates all memory that training needs. Throws UserError if activations do not fit.
  CheckpointingTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return trainer_.state(); }
  StepResult step() override { return trainer_.step(); }
  double evaluate(size_t num_batches) override { return trainer_.evaluate(num_batches); }

 private:
  RunConfig config_;  // the user's, with what has been chosen
  SingleGpuTrainer trainer_;
};

}  // namespace ladder
