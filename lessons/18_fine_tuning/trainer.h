// Lesson 18: fine-tuning. A small part of a trained model is trained, the rest is frozen.
#pragma once

#include "common/model/train_choice.h"
#include "lessons/09_3d_parallel/trainer.h"

namespace ladder {

// FineTuningTrainer is lesson 09's trainer, alone or on any grid that it takes, with another
// default of --train. What it adds is bookkeeping: what each part of the model still costs.
class FineTuningTrainer final : public Trainer {
 public:
  static constexpr const char* kDefaultTrain = kTrainLora;

  struct Flags : ThreeDFlags {
    void add_to(FlagTable& flags);
  };
  // Returns a line with the bytes that a replica keeps for each parameter, where lesson 01 keeps 16
  // (the weight, its gradient and two moments, all fp32), and lesson 09's lines if there is a grid.
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan& plan);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "18_fine_tuning",
               .description = "Trains a small part of a trained model, with adapters or without.",
               .has_schedule = true},
      .arrange = [](const Flags& flags, size_t num_ranks,
                    size_t rank) { return flags.arrange(num_ranks, rank); },
      .plan = [](const Flags& flags, const RunConfig& config,
                 const ProcessGrid& grid) { return ThreeDTrainer::plan(flags, config, grid); },
      .describe = describe};

  FineTuningTrainer(const TrainerContext& context, const Flags& flags) : trainer_(context, flags) {}
  ModelState& state() override { return trainer_.state(); }
  StepResult step() override { return trainer_.step(); }
  double evaluate(size_t num_batches) override { return trainer_.evaluate(num_batches); }
  void check_replicas() override { trainer_.check_replicas(); }
  std::string report() override { return trainer_.report(); }

 private:
  ThreeDTrainer trainer_;
};

}  // namespace ladder
