// What every trainer's step needs around the model: the tokens of a micro-batch on the device, and
// the sum of its losses.
#pragma once

#include <cstdint>

#include "common/train/trainer.h"

namespace ladder {

// Brings sequences of tokens to the device. Allocates workspace there and on the host.
class BatchLoader {
 public:
  explicit BatchLoader(const TrainerContext& context);

  // Sequences [first_sequence, first_sequence + micro_batch_size) of the global batch of `step`.
  void load(Split split, int64_t step, size_t first_sequence);

  TensorView tokens() const { return tokens_; }    // (B, T) int32, on the device
  TensorView targets() const { return targets_; }  // (B, T) int32, on the device

 private:
  TrainerContext context_;
  Tensor tokens_, targets_, host_tokens_, host_targets_;
};

// Adds up the losses of the micro-batches of a step. Allocates workspace on the device.
class LossSum {
 public:
  LossSum(const TrainerContext& context, size_t num_micro_batches);

  // Asynchronous. REQUIRES: at most num_micro_batches calls before total(). losses (R)
  void add(ConstTensorView losses);
  // The sum of all that was added, micro-batch after micro-batch; starts anew. Synchronizes.
  double total();

 private:
  Stream& stream_;
  Tensor sums_, workspace_;
  size_t count_ = 0;
};

}  // namespace ladder
