// Lesson 14: context parallelism. Ranks share each sequence.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"
#include "lessons/14_context_parallel/context_share.h"

namespace ladder {

// In ContextParallelTrainer the ranks of a context group run the same sequences, and each has a
// part of the tokens of every sequence. Only attention needs the tokens of other ranks;
// RingAttention brings their keys and values. Several context groups share the global batch. Every
// rank has a whole replica of the model, and gradients are summed over all ranks, as in lesson 02.
class ContextParallelTrainer final : public Trainer {
 public:
  struct Flags {
    ContextFlags context = {};
    size_t bucket_bytes = size_t{25} << 20;
    bool no_overlap = false;
    void add_to(FlagTable& flags);
  };

  static ProcessGrid arrange(const Flags& flags, size_t num_ranks, size_t rank);
  // Returns lines for the header: the tokens of each rank.
  static std::string describe(const Flags& flags, const RunConfig& config, const ProcessGrid& grid,
                              const SharedPlan&);
  static constexpr Lesson<Flags> kLesson = {
      .info = {"14_context_parallel", "Trains a model on sequences that ranks share."},
      .arrange = arrange,
      .describe = describe};

  ContextParallelTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override;
  // Throws an Error that names a rank unless all replicas are the same to the bit.
  void check_replicas() override;

 private:
  TrainerContext context_;
  Communicator& ranks_;  // all
  ContextShare tokens_;  // this rank's tokens of each sequence
  Layout layout_;
  ModelState state_;
  ModelRunner model_;
  DataParallel share_;  // the sequences of this rank's context group
  BucketSync sync_;
};

}  // namespace ladder
