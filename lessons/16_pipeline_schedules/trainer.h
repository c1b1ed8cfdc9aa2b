// Lesson 16: pipeline schedules with smaller bubbles. A new schedule is a new list.
#pragma once

#include "common/pipeline/executor.h"
#include "common/train/trainer/replicas.h"
#include "lessons/16_pipeline_schedules/plan.h"

namespace ladder {

// ScheduleTrainer is lesson 08's trainer with other lists: a stage may hold several model chunks,
// and backward may run in two halves, of which the second fills the bubble. [Narayanan21 2.2, Qi23,
// Qi24]
class ScheduleTrainer {
 public:
  static constexpr LessonInfo kLesson = {"16_pipeline_schedules",
                                         "Trains a GPT-2 in a pipeline with smaller bubbles.",
                                         Precisions::bf16, true};
  static constexpr bool kDistributed = true;
  using Flags = ScheduleFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  using Plan = std::shared_ptr<const PipelinePlan>;
  static Plan plan(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);
  static std::string describe(const RunConfig& config, const ProcessGrid&, const Flags&,
                              const Plan& plan) {
    draw_schedule(config, *plan);
    return stages_text(config, *plan);
  }

  ScheduleTrainer(const TrainerContext& context, const Flags&, const Plan& plan);
  ModelState& state() { return state_; }
  StepResult step();
  double evaluate(size_t num_batches);
  // Throws an Error unless the first and the last model chunk have the same token embedding.
  void check_replicas() {
    const RankContext& ranks = *context_.ranks;
    check_copies(state_, ranks.world, {copies_of_shared_units(ranks.on(Axis::embedding))});
  }
  // Returns lines about the bubble, on rank 0. Collective.
  std::string report() { return pipeline_.report(); }

 private:
  TrainerContext context_;
  PipelineStage stage_;
  ModelState state_;
  ModelRunner model_;
  PipelineExecutor pipeline_;
};

}  // namespace ladder
