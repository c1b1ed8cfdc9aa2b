// Lesson 08: pipeline parallelism. Every rank has a run of the model's units.
#pragma once

#include "common/train/full_tensors.h"
#include "lessons/08_pipeline_parallel/pipeline.h"
#include "lessons/08_pipeline_parallel/plan.h"

namespace ladder {

// A micro-batch's activations go from stage to stage, its gradients back; several micro-batches are
// under way, so that the stages work at the same time. Who does what when is a list, made before
// training. [Huang19 GPipe, Narayanan19 PipeDream, Narayanan21]
class PipelineTrainer {
 public:
  static constexpr LessonInfo kLesson = {"08_pipeline_parallel",
                                         "Trains a GPT-2 whose blocks are spread over the ranks."};
  static constexpr bool kDistributed = true;
  using Flags = PipelineFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  // Parameters, gradients and moments of the stage's units, the token embedding also on the last
  // stage; activations once for every micro-batch in flight; traffic as add_pipeline_traffic().
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);
  static std::string describe(const RunConfig& config, const ProcessGrid& grid,
                              const Flags& flags) {
    return stages_text(config, plan_pipeline(config, grid, flags));
  }

  PipelineTrainer(const TrainerContext& context, const Flags& flags)
      : PipelineTrainer(context, flags, Stage(context.config, context.grid, flags)) {}

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink) {
    collector_.visit([&](const TensorSink& own) { replica_.visit(kind, own); }, sink);
  }
  void check_replicas() { check_copies(replica_, {embedding_copies(*replica_.context.groups)}); }
  std::string report();

 private:
  PipelineTrainer(const TrainerContext& context, const Flags& flags, Stage stage);

  Stage stage_;
  Replica replica_;
  Pipeline pipeline_;
  StageCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
