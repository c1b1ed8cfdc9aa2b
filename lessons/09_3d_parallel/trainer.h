// Lesson 09: 3D parallelism. Data x pipeline x tensor, from the lessons before.
#pragma once

#include "common/train/full_tensors.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_stage.h"
#include "lessons/08_pipeline_parallel/pipeline.h"
#include "lessons/08_pipeline_parallel/plan.h"

namespace ladder {

// Ranks form a grid. Those of a tensor group (next to each other) split every large weight of one
// pipeline stage; those of a pipeline group have the stages of one model; those of a data group
// have the same part of it and share the global batch, with lesson 02's buckets or lesson 03's
// shards. [Narayanan21]
class ThreeDTrainer {
 public:
  static constexpr LessonInfo kLesson = {
      "09_3d_parallel", "Trains a GPT-2 with data, pipeline and tensor parallelism at once."};
  static constexpr bool kDistributed = true;

  struct Flags {
    size_t tensor_parallel_size = 1;
    PipelineFlags pipeline;
    ZeroFlags zero;
    void add_to(CLI::App& app);
    std::vector<NamedFile> outputs() const { return pipeline.outputs(); }
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  // Memory of lesson 08's stage with lesson 07's slices in it, the moments over the data axis with
  // ZeRO-1. Traffic of the four lessons, each on its axis; the token embedding's gradient on two.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);
  // Which rank sits where and what it holds.
  static std::string describe(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  ThreeDTrainer(const TrainerContext& context, const Flags& flags)
      : ThreeDTrainer(context, flags, Stage(context.config, context.grid, flags.pipeline)) {}

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink);
  // Throws Error unless what several ranks hold is the same on all of them.
  void check_replicas();
  std::string report();

 private:
  ThreeDTrainer(const TrainerContext& context, const Flags& flags, Stage stage);

  Stage stage_;
  Replica replica_;
  DataParallel pipelines_;  // that share the global batch
  Pipeline pipeline_;
  ZeroStage zero_;
  SliceCollector slices_;
  StageCollector stages_;
  int64_t step_ = 0;
};

}  // namespace ladder
