// Lesson 07: tensor parallelism. Every large weight is split among the ranks.
#pragma once

#include "common/train/full_tensors.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/07_tensor_parallel/slices.h"

namespace ladder {

// All ranks work on the same rows; each has some of the heads, of the inner layer's columns and of
// the vocabulary, and its slice of every large product. What each adds to the residual stream is
// summed, which needs two all_reduces a block in forward and two in backward. [Shoeybi19]
class TensorParallelTrainer {
 public:
  static constexpr LessonInfo kLesson = {"07_tensor_parallel",
                                         "Trains a GPT-2 whose weights are split among the ranks."};
  static constexpr bool kDistributed = true;

  struct Flags {
    size_t tensor_parallel_size = 0;  // 0 = all ranks
    void add_to(CLI::App& app);
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  // With N ranks: of every split tensor 1/N, of the token embedding ceil(V/N) rows, in parameters,
  // gradients and moments alike; activations as their class says; traffic as tensor_traffic().
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  TensorParallelTrainer(const TrainerContext& context, const Flags&)
      : TensorParallelTrainer(context, layout_of(context.config, context.grid)) {}

  StepResult step();
  double evaluate(size_t num_batches) { return rows_.evaluate(num_batches); }
  void visit(TensorKind kind, const TensorSink& sink) {
    replica_.visit(kind, collector_.joined(sink));
  }
  // Throws Error unless what is not split is the same on all ranks.
  void check_replicas();

 private:
  static Layout layout_of(const RunConfig& config, const ProcessGrid& grid);
  TensorParallelTrainer(const TrainerContext& context, const Layout& layout);

  Replica replica_;
  DataParallel rows_;  // one rank: all rows
  SliceCollector collector_;
  int64_t step_ = 0;
};

}  // namespace ladder
