// Lesson 16: pipeline schedules with smaller bubbles. A new schedule is a new list.
#pragma once

#include "common/train/replicas.h"
#include "lessons/16_pipeline_schedules/executor.h"
#include "lessons/16_pipeline_schedules/plan.h"

namespace ladder {

// What the trainer of one stage allocates.
struct StageMemory {
  StageMemory(const TrainerContext& context, const ChunkStage& stage, size_t num_slots);
  ModelState state;
  ChunkRunner runner;
};

// ScheduleTrainer is lesson 08's trainer with other lists: a stage may hold several chunks of the
// model, and backward may run in two halves, of which the second fills the bubble.
// [Narayanan21 2.2, Qi23, Qi24]
class ScheduleTrainer {
 public:
  static constexpr LessonInfo kLesson = {"16_pipeline_schedules",
                                         "Trains a GPT-2 in a pipeline with smaller bubbles.",
                                         Precisions::bf16, true};
  static constexpr bool kDistributed = true;
  using Flags = ScheduleFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);
  static std::string describe(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  ScheduleTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() { return memory_.state; }
  StepResult step();
  double evaluate(size_t num_batches);
  // Throws an Error unless the first and the last part have the same token embedding.
  void check_replicas() {
    const RankContext& ranks = *context_.ranks;
    check_copies(memory_.state, ranks.world, {copies_of_shared_units(ranks.on(Axis::embedding))});
  }
  // Returns lines about the bubble, on rank 0. Collective.
  std::string report() { return pipeline_.report(); }

 private:
  TrainerContext context_;
  ChunkStage stage_;
  StageMemory memory_;
  ChunkPipeline pipeline_;
};

}  // namespace ladder
