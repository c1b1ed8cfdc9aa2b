// Lesson 09: 3D parallelism. It combines data, pipeline and tensor parallelism of earlier lessons.
#pragma once

#include <memory>

#include "common/pipeline/executor.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/07_tensor_parallel/head_copies.h"
#include "lessons/09_3d_parallel/flags.h"

namespace ladder {

// In ThreeDTrainer ranks form a grid. The ranks of a tensor group, which have consecutive numbers,
// split every large weight of one pipeline stage. The ranks of a pipeline group have the stages of
// one model, and follow one of lesson 16's schedules. The ranks of a data group have the same part
// of the model and share the global batch, with lesson 02's buckets or lesson 03's shards. With
// --sequence-parallel a tensor group splits the tokens, too, as in lesson 13. With
// --context-parallel-size the ranks of a context group have the same part of the model and share
// each sequence, as in lesson 14. [Narayanan21]
class ThreeDTrainer final : public Trainer {
 public:
  using Flags = ThreeDFlags;

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank) {
    return flags.arrange(num_ranks, rank);
  }
  static SharedPlan plan(const Flags& flags, const RunConfig& config, const ProcessGrid& grid);
  // Returns lines for the header that say where each rank is in the grid and what it holds.
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan& plan);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "09_3d_parallel",
               .description = "Trains a model with data, pipeline and tensor parallelism at once.",
               .precisions = Precisions::bf16,
               .has_schedule = true,
               .gives_matrices = true},
      .arrange = arrange,
      .plan = plan,
      .describe = describe};

  ThreeDTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error unless parameters that several ranks hold are the same on all of them.
  void check_replicas() override;
  // Returns lines about the bubble, on rank 0. Collective.
  std::string report() override;

 private:
  TrainerContext context_;
  PipelineStage stage_;
  ContextShare tokens_;                        // this rank's tokens of each sequence
  std::unique_ptr<Communicator> stage_ranks_;  // with Muon, if weights have shards of slices
  ModelState state_;
  ModelRunner model_;
  Tensor reduced_;  // the gradients in --reduce-dtype; empty if that is their own dtype
  std::unique_ptr<PipelineExecutor> pipeline_;
  HeadCopies head_copies_;
  DataParallel share_;  // the part of the global batch that this pipeline runs
  std::unique_ptr<GradientSync> sync_;
};

}  // namespace ladder
