// Lesson 13: sequence parallelism. Tensor-parallel ranks also split the residual stream, by tokens.
// Read lesson 07's trainer first.
#pragma once

#include "lessons/07_tensor_parallel/head_copies.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/13_sequence_parallel/tokens.h"

namespace ladder {

// SequenceParallelTrainer trains with N ranks that split every large weight, as in lesson 07, and
// also the R rows (tokens) of a micro-batch. In lesson 07 every rank holds all rows (R, C) of the
// residual stream and of the layernorms, and computes the same there. Here each rank has R / N
// rows, so all activations are divided by N. Before a pair of split layers the ranks all_gather
// their rows; after it a reduce_scatter gives each rank the sums of its own rows. Layernorms,
// positions and some biases are still whole on all ranks, so their gradients are summed once a
// step. [Korthikanti22, section 4.2.2]
class SequenceParallelTrainer final : public Trainer {
 public:
  struct Flags {
    TensorParallelTrainer::Flags tensor;
    TokenFlags tokens;
    void add_to(FlagTable& flags);
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank) {
    return TensorParallelTrainer::arrange(flags.tensor, num_ranks, rank);
  }
  static constexpr Lesson<Flags> kLesson = {
      .info = {"13_sequence_parallel",
               "Trains a model whose weights and tokens are split among the ranks."},
      .arrange = arrange};

  SequenceParallelTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error unless what several ranks hold is the same on these.
  void check_replicas() override;

 private:
  TrainerContext context_;
  Communicator& ranks_;
  MemorySource* registered_;  // memory for what ranks sum or gather; null if there is one rank
  Layout layout_;             // the layout of this rank's slices
  ModelState state_;
  ModelRunner model_;
  HeadCopies head_copies_;
};

}  // namespace ladder
