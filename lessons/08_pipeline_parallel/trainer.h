// Lesson 08: pipeline parallelism. Every rank runs a part of the model's operations.
#pragma once

#include "common/train/trainer/replicas.h"
#include "lessons/08_pipeline_parallel/pipeline.h"
#include "lessons/08_pipeline_parallel/plan.h"

namespace ladder {

// In PipelineTrainer a micro-batch's activations go from stage to stage, and its gradients go back.
// Several micro-batches are under way, so that stages work at the same time. A list that is made
// before training says who does what when. [Huang19 GPipe, Narayanan19 PipeDream, Narayanan21]
class PipelineTrainer final : public Trainer {
 public:
  using Flags = PipelineFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  static SharedPlan plan(const Flags& flags, const RunConfig& config, const ProcessGrid& grid) {
    return plan_pipeline(config, grid, flags);
  }
  // Returns lines for the header, and draws the schedule. Throws UserError if it cannot.
  static std::string describe(const Flags&, const RunConfig& config, const ProcessGrid&,
                              const SharedPlan& plan) {
    draw_schedule(config, *plan);
    return stages_text(config, *plan);
  }
  static constexpr Lesson<Flags> kLesson = {
      .info = {"08_pipeline_parallel", "Trains a model whose blocks are spread over the ranks.",
               Precisions::bf16, true},
      .arrange = arrange,
      .plan = plan,
      .describe = describe};

  PipelineTrainer(const TrainerContext& context, const Flags&);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error unless the first and the last stage have the same token embedding.
  void check_replicas() override {
    const RankContext& ranks = *context_.ranks;
    check_copies(state_, ranks.world, {copies_of_shared_units(ranks.on(Axis::embedding))});
  }
  // Returns lines about the bubble, on rank 0. Collective.
  std::string report() override;

 private:
  TrainerContext context_;
  PipelineStage stage_;
  ModelState state_;
  ModelRunner model_;
  Pipeline pipeline_;
};

}  // namespace ladder
