// What every trainer's step needs around the model: the rows of a micro-batch on the device, the
// sum of its losses, and full tensors in host memory.
#pragma once

#include <cstdint>

#include "common/model/weights.h"
#include "common/train/trainer.h"

namespace ladder {

// Token rows on their way to the device.
class BatchLoader {
 public:
  explicit BatchLoader(const TrainerContext& context);
  // Bytes allocated as workspace on the device, and as many on the host.
  static size_t num_bytes(const RunConfig& config);

  // Rows first_row .. first_row + micro_batch_size - 1 of the global batch of `step`.
  void load(Split split, int64_t step, size_t first_row);

  TensorView tokens() const { return tokens_; }    // (B, T) int32, on the device
  TensorView targets() const { return targets_; }  // (B, T) int32, on the device

 private:
  TrainerContext context_;
  Tensor tokens_, targets_, host_tokens_, host_targets_;
};

// Adds up the losses of the micro-batches of a step.
class LossSum {
 public:
  LossSum(const TrainerContext& context, size_t num_micro_batches);
  // Bytes of workspace allocated on the device.
  static size_t num_bytes(const RunConfig& config, size_t num_micro_batches);

  // Asynchronous. REQUIRES: at most num_micro_batches calls before total(). losses (R)
  void add(ConstTensorView losses);
  // The sum of all that was added, micro-batch after micro-batch; starts anew. Synchronizes.
  double total();

 private:
  Stream& stream_;
  Tensor sums_, workspace_;
  size_t count_ = 0;
};

// One parameter at a time in host memory: between the device and files.
class ParameterStaging {
 public:
  ParameterStaging(const TrainerContext& context, const Layout& layout);
  // Bytes of host workspace: the largest parameter, in full, in the dtype that files have.
  static size_t num_bytes(const Layout& layout, DType dtype);

  // Elements [first, first + span) of the flat buffer = the parameters of the file. Synchronizes.
  void load(const WeightsFile& file, size_t first, TensorView span);
  // Hands what a flat buffer has of every tensor to the sink, in layout order. Synchronizes.
  void visit(ConstTensorView flat, const TensorSink& sink);

 private:
  // The host memory as a tensor of a dtype that is no larger.
  TensorView host_as(DType dtype, const Shape& shape) const;

  Stream& stream_;
  const Layout& layout_;
  Tensor host_;
};

}  // namespace ladder
