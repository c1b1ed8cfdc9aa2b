// Lesson 16: pipeline schedules with smaller bubbles. A new schedule is a new list.
#pragma once

#include "common/pipeline/executor.h"
#include "common/train/trainer/replicas.h"
#include "lessons/16_pipeline_schedules/plan.h"

namespace ladder {

// ScheduleTrainer is lesson 08's trainer with other lists: a stage may hold several model chunks,
// and backward may run in two halves, of which the second fills the bubble. [Narayanan21 2.2, Qi23,
// Qi24]
class ScheduleTrainer final : public Trainer {
 public:
  using Flags = ScheduleFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  static SharedPlan plan(const Flags& flags, const RunConfig& config, const ProcessGrid& grid);
  static std::string describe(const Flags&, const RunConfig& config, const ProcessGrid&,
                              const SharedPlan& plan) {
    draw_schedule(config, *plan);
    return stages_text(config, *plan);
  }
  static constexpr Lesson<Flags> kLesson = {
      .info = {"16_pipeline_schedules", "Trains a model in a pipeline with smaller bubbles.",
               Precisions::bf16, true},
      .arrange = arrange,
      .plan = plan,
      .describe = describe};

  ScheduleTrainer(const TrainerContext& context, const Flags&);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error unless the first and the last model chunk have the same token embedding.
  void check_replicas() override {
    const RankContext& ranks = *context_.ranks;
    check_copies(state_, ranks.world, {copies_of_shared_units(ranks.on(Axis::embedding))});
  }
  // Returns lines about the bubble, on rank 0. Collective.
  std::string report() override { return pipeline_.report(); }

 private:
  TrainerContext context_;
  PipelineStage stage_;
  ModelState state_;
  ModelRunner model_;
  PipelineExecutor pipeline_;
};

}  // namespace ladder
