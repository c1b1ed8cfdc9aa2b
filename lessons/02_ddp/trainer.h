// Lesson 02: data parallel. Every rank is a replica and runs its share of the global batch.
#pragma once

#include <CLI/CLI.hpp>

#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"

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

  // Memory as in lesson 01. Each step all_reduces the padded gradients once: 2 (N-1)/N P s bytes on
  // the wire per rank.
  static Prediction predict(const RunConfig& config, const ProcessGrid& grid, const Flags& flags);

  DdpTrainer(const TrainerContext& context, const Flags& flags);

  StepResult step();
  double evaluate(size_t num_batches) { return ranks_.evaluate(num_batches); }
  void visit(TensorKind kind, const TensorSink& sink);
  void check_replicas() { check_copies(replica_, {{world_}}); }

 private:
  DdpTrainer(const TrainerContext& context, const Layout& layout, const Flags& flags);

  Communicator& world_;
  Replica replica_;
  DataParallel ranks_;
  BucketReducer reducer_;
  int64_t step_ = 0;
};

}  // namespace ladder
