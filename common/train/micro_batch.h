// Two things that every trainer's step needs around the model: the tokens of a micro-batch on the
// device, and the sum of the losses.
#pragma once

#include <cstdint>

#include "common/train/trainer.h"

namespace ladder {

// BatchLoader copies the tokens of a micro-batch to the device. It allocates workspace on the
// device and on the host.
class BatchLoader {
 public:
  explicit BatchLoader(const TrainerContext& context);

  // Loads sequences [first_sequence, first_sequence + micro_batch_size) of the global batch of
  // `step`. It first waits for the work on the stream, which may still copy the last micro-batch;
  // the copies themselves are asynchronous.
  void load(Split split, int64_t step, size_t first_sequence);

  // Both are on the device: (B, T) int32, for B = micro_batch_size sequences of T tokens.
  TensorView tokens() const { return tokens_; }
  TensorView targets() const { return targets_; }

 private:
  TrainerContext context_;
  Tensor tokens_, targets_, host_tokens_, host_targets_;
};

// LossSum adds up the losses of the micro-batches of a step. It allocates workspace on the device.
class LossSum {
 public:
  LossSum(const TrainerContext& context, size_t num_micro_batches);

  // Adds the losses of one micro-batch, one for each row (token): (R). Asynchronous.
  // REQUIRES: at most num_micro_batches calls before total().
  void add(ConstTensorView losses);
  // Returns the sum of all losses since the last call, taken in the order of the micro-batches.
  // Synchronizes the stream.
  double total();

 private:
  Stream& stream_;
  Tensor sums_, workspace_;
  size_t count_ = 0;
};

}  // namespace ladder
