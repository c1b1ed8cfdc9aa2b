// Lesson 09: 3D parallelism. Data x pipeline x tensor, from the lessons before.
#pragma once

#include <memory>

#include "lessons/02_ddp/data_parallel.h"
#include "lessons/03_zero1/zero_flags.h"
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
  // That of the lessons it is made of, each on its axis; the token embedding's gradient on two.
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);
  // Which rank sits where and what it holds.
  static std::string describe(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  ThreeDTrainer(const TrainerContext& context, const Flags& flags);
  void initialize() { state_.initialize(); }
  StepResult step();
  double evaluate(size_t num_batches);
  std::vector<Slice> slices(std::string_view kind) const { return state_.slices(kind); }
  // Throws Error unless what several ranks hold is the same on all of them.
  void check_replicas();
  std::string report();

 private:
  TrainerContext context_;
  Stage stage_;  // which part of the model, and what it does when
  ModelState state_;
  ModelRunner model_;
  Pipeline pipeline_;
  DataParallel share_;  // of the global batch, that this pipeline has
  std::unique_ptr<GradientSync> sync_;
};

}  // namespace ladder
