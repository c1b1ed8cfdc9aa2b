// Lesson 17: elastic training. A rank's part: it trains in whatever layout it is given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lessons/05_zero3/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "lessons/17_elastic/failures.h"

namespace ladder {

// ElasticTrainer is lesson 05's trainer if all ranks share the global batch, and lesson 09's with
// ZeRO-1 if some of them split the model. So ranks that go on from a checkpoint with another layout
// may also have another trainer than those that wrote it.
class ElasticTrainer final : public Trainer {
 public:
  static constexpr size_t kGlobalBatchSize = 24;  // divides among 1, 2, 3, 4, 6, 8 and 12 ranks
  static constexpr int64_t kCheckpointEvery = 10;

  struct Flags {
    size_t tensor_parallel_size = 1, pipeline_parallel_size = 1;
    std::vector<Failure> failures = {};
    std::string step_file = {};  // where ranks say in which step they are; empty: nobody asks
    void add_to(FlagTable& flags);
    ThreeDTrainer::Flags three_d() const;
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank) {
    return ThreeDTrainer::arrange(flags.three_d(), num_ranks, rank);
  }
  // That of lesson 09, or null if lesson 05 is enough.
  static SharedPlan plan(const Flags& flags, const RunConfig& config, const ProcessGrid& grid) {
    const bool splits_model = grid.data_size < grid.world_size();
    return splits_model ? ThreeDTrainer::plan(flags.three_d(), config, grid) : nullptr;
  }
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan& plan) {
    return plan ? ThreeDTrainer::describe(flags.three_d(), config, grid, plan) : std::string();
  }
  static constexpr Lesson<Flags> kLesson = {
      .info = {"17_elastic",
               "Trains a model on several ranks, and goes on with the others if one is lost."},
      .arrange = arrange,
      .plan = plan,
      .describe = describe};

  ElasticTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return trainer_->state(); }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return trainer_->evaluate(num_batches); }
  void check_replicas() override { trainer_->check_replicas(); }
  std::string report() override { return trainer_->report(); }

 private:
  TrainerContext context_;
  Flags flags_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace ladder
