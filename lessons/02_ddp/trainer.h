// Lesson 02: data parallel. Every rank is a replica and runs its share of the global batch.
#pragma once

#include "common/train/ranks.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"

namespace ladder {

// Gradients are summed over the ranks once per step, bucket by bucket while the last micro-batch's
// backward goes on; then every rank makes the same update.
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

  // Each step all_reduces the padded gradients once.
  static TrafficEntries traffic(const RunConfig& config, const ProcessGrid& grid,
                                const Flags& flags);

  DdpTrainer(const TrainerContext& context, const Flags& flags);
  void initialize() { state_.initialize(); }
  StepResult step();
  double evaluate(size_t num_batches) { return share_.evaluate(model_, num_batches); }
  std::vector<Slice> slices(std::string_view kind) const { return state_.slices(kind); }
  // Throws Error, naming a rank, unless all replicas are the same to the bit.
  void check_replicas();

 private:
  TrainerContext context_;
  Communicator& ranks_;
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;
  BucketSync sync_;
};

}  // namespace ladder
