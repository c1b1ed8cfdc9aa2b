// Lesson 02: data parallel. Every rank is a replica and runs its share of the global batch.
#pragma once

#include <CLI/CLI.hpp>

#include "lessons/01_single_gpu/replica.h"
#include "lessons/02_ddp/buckets.h"

namespace ladder {

// Gradients are summed over the ranks once per step, bucket by bucket while the last micro-batch's
// backward goes on; then every rank makes the same update. [Li20, PyTorch Distributed]
class DdpTrainer {
 public:
  static constexpr LessonInfo kLesson = {"02_ddp",
                                         "Trains a GPT-2 on several ranks, each a whole "
                                         "replica."};
  static constexpr bool kDistributed = true;

  struct Flags {
    size_t bucket_bytes = size_t{25} << 20;
    bool no_overlap = false;
    bool naive = false;  // one reduction of everything, after backward
    void add_to(CLI::App& app);
  };

  // Memory as in lesson 01, and with --no-shared-memory the staging area. Each step all_reduces the
  // padded gradients once: 2 (N-1)/N P s bytes on the wire per rank.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  DdpTrainer(const TrainerContext& context, const Flags& flags);

  StepResult step();
  double evaluate(size_t num_batches);
  void visit(TensorKind kind, const TensorSink& sink);
  // Throws Error, naming the rank, unless all ranks' parameters are the same to the bit.
  void check_replicas();

 private:
  // The sum of a number over all ranks, in rank order.
  double sum_over_ranks(double number);
  size_t first_row() const;  // of this rank in the global batch
  size_t num_rows() const;

  Replica replica_;
  Tensor staging_;  // none in shared memory
  Communicator& world_;
  BucketReducer reducer_;
  int64_t step_ = 0;
};

}  // namespace ladder
