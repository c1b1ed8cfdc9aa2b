// Lesson 07: tensor parallelism. Every large weight is split among the ranks.
#pragma once

#include "common/train/trainer/model_runner.h"
#include "common/train/trainer/model_state.h"
#include "common/train/trainer/ranks.h"
#include "lessons/07_tensor_parallel/head_copies.h"
#include "lessons/07_tensor_parallel/slices.h"

namespace ladder {

// In TensorParallelTrainer all ranks work on the same sequences. Each rank has some of the heads,
// some columns of the inner layer, and some tokens of the vocabulary, and computes its slice of
// every large product. The ranks sum what they add to the residual stream, which needs two
// all_reduces for each transformer block in forward and two in backward. [Shoeybi19]
class TensorParallelTrainer final : public Trainer {
 public:
  struct Flags {
    size_t tensor_parallel_size = 0;  // 0 = all ranks
    void add_to(FlagTable& flags);
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  static constexpr Lesson<Flags> kLesson = {
      .info = {.name = "07_tensor_parallel",
               .description = "Trains a model whose weights are split among the ranks.",
               .gives_matrices = true},
      .arrange = arrange};

  TensorParallelTrainer(const TrainerContext& context, const Flags&);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error unless what several ranks hold is the same on these.
  void check_replicas() override;

 private:
  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;  // the layout of this rank's slices
  ModelState state_;
  ModelRunner model_;
  HeadCopies head_copies_;
};

}  // namespace ladder
