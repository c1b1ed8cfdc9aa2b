// Lesson 13: sequence parallelism. Tensor-parallel ranks also split the residual stream, by tokens.
#pragma once

#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/13_sequence_parallel/tokens.h"

namespace ladder {

// SequenceParallelTrainer is lesson 07's trainer with one more split. Between the pairs of layers
// whose weights are split, where every rank of lesson 07 holds all rows and does the same with
// them, each of N ranks has an N-th of the rows: of the residual stream, of the layernorms, and of
// their gradients. So all activations are divided by N. The parameters there are still on all
// ranks, and the ranks add up their gradients once a step. [Korthikanti22, section 4.2.2]
class SequenceParallelTrainer {
 public:
  static constexpr LessonInfo kLesson = {
      "13_sequence_parallel", "Trains a GPT-2 whose weights and tokens are split among the ranks."};
  static constexpr bool kDistributed = true;

  struct Flags {
    TensorParallelTrainer::Flags tensor;
    TokenFlags tokens;
    void add_to(CLI::App& app);
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank) {
    return TensorParallelTrainer::arrange(flags.tensor, num_ranks, rank);
  }
  // Returns what a step communicates: sequence_traffic() of the whole model, and
  // partial_gradient_traffic().
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);

  SequenceParallelTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() { return state_; }
  StepResult step();
  double evaluate(size_t num_batches);
  // Throws an Error unless the parameters that are not split are the same on all ranks.
  void check_replicas();

 private:
  TrainerContext context_;
  Communicator& ranks_;
  MemorySource* registered_;  // of what ranks sum or gather; null if there is one rank
  Layout layout_;             // the layout of this rank's slices
  ModelState state_;
  ModelRunner model_;
};

}  // namespace ladder
