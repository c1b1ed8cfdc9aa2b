// Two things that every trainer's step needs around the model: the tokens of a micro-batch on the
// device, and the sum of the losses.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/train/trainer/trainer.h"

namespace ladder {

// The tokens of each sequence that this rank has.
struct SequenceSlice {
  // Their positions, in increasing order; empty: all tokens.
  std::vector<int32_t> positions = {};
  // The most tokens that a rank has: memory is for so many on all ranks.
  size_t most_tokens = 0;

  bool is_whole() const { return positions.empty(); }
  // Return the tokens that this rank has, and those that memory is for, of `all`.
  size_t num_tokens(size_t all) const { return is_whole() ? all : positions.size(); }
  size_t capacity(size_t all) const { return is_whole() ? all : most_tokens; }
};

// BatchLoader copies the tokens of a micro-batch to the device. It allocates workspace on the
// device and on the host.
class BatchLoader {
 public:
  BatchLoader(const TrainerContext& context, const SequenceSlice& part);

  // Loads this rank's tokens of sequences [first_sequence, first_sequence + micro_batch_size) of
  // the global batch of `step`. The copies are asynchronous. The host first waits for the copies of
  // the last micro-batch, but not for the work that is queued after them: so it can be one
  // micro-batch ahead of the device, which then has always something to do.
  void load(Split split, int64_t step, size_t first_sequence);

  // All are on the device: (B, T) int32, for B = micro_batch_size sequences of T tokens, and the
  // positions (T) int32, which are empty if this rank has all tokens.
  TensorView tokens() const { return front_of(tokens_); }
  TensorView targets() const { return front_of(targets_); }
  TensorView positions() const;

  // Returns how many of the targets count. It is known if the context asks (TrainerContext).
  size_t num_counted() const { return num_counted_; }

 private:
  // Returns this rank's tokens (B, T), which are at the front of the memory.
  TensorView front_of(const Tensor& tokens) const;
  void fill(Split split, int64_t step, size_t first_sequence);

  TrainerContext context_;
  SequenceSlice part_;
  Tensor tokens_, targets_, positions_;
  Tensor host_tokens_, host_targets_, host_positions_;  // host_tokens_ and targets: of all tokens
  size_t num_counted_ = 0;
  std::unique_ptr<Event> copied_ = std::make_unique<Event>();  // the host's may be overwritten
};

// LossSum adds up the losses of the micro-batches of a step. It allocates workspace on the device.
class LossSum {
 public:
  // `rows` are the most rows (tokens) of a micro-batch.
  LossSum(const TrainerContext& context, size_t num_micro_batches, size_t rows);

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
