// Lesson 02: data parallelism. Every rank has a replica of the model and runs its share of the
// global batch.
#pragma once

#include "common/train/trainer/ranks.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/data_parallel.h"

namespace ladder {

// DdpTrainer sums gradients over the ranks once a step, bucket by bucket, while the backward of the
// last micro-batch goes on. Then every rank makes the same update.
class DdpTrainer final : public Trainer {
 public:
  struct Flags {
    size_t bucket_bytes = size_t{25} << 20;
    bool no_overlap = false;
    bool naive = false;  // true: one reduction of all gradients, after backward
    void add_to(FlagTable& flags);
  };
  static constexpr Lesson<Flags> kLesson = {
      {.name = "02_ddp",
       .description = "Trains a model on several ranks, each a whole replica.",
       .gives_matrices = true}};

  DdpTrainer(const TrainerContext& context, const Flags& flags);
  ModelState& state() override { return state_; }
  StepResult step() override;
  double evaluate(size_t num_batches) override { return share_.evaluate(model_, num_batches); }
  // Throws an Error that names a rank unless all replicas are the same to the bit.
  void check_replicas() override;

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
