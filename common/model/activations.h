// The memory of one micro-batch: the activations that forward saves for backward, and the workspace
// that both need. Letters: R = B T rows, of which the residual stream has n on this rank
// (ModelPartition::residual), C hidden size, NH heads, V vocabulary.
#pragma once

#include <vector>

#include "common/model/block.h"
#include "common/model/classifier.h"
#include "common/model/layout.h"
#include "common/model/offload_plan.h"
#include "common/model/recompute.h"

namespace ladder {

// The description of one tensor that forward saves for backward.
struct ActivationSpec {
  enum class Kind {
    rows,             // (R, columns) in the compute dtype
    row_statistics,   // (R) in the accumulation dtype, or (R, columns) if it is split
    head_statistics,  // (B, NH, T) in the accumulation dtype: one value for each row and head
  };
  const char* name;
  Kind kind;
  size_t columns = 1;  // of a row, or the number of heads; 0: the block has no such tensor
  // True: each of N tensor-parallel ranks has an N-th of the columns, for all rows. False: it has
  // the rows that it has of the residual stream.
  bool split = false;
  size_t operation = 0;  // the block's operation that computes it
  // Of the output of a linear layer, or of what is kept for its heads: the parts, each of which is
  // split on its own.
  std::vector<LinearPart> parts = {};
  // Whether ranks that split tokens gather all rows of it, and may keep them.
  bool is_gathered = false;
};

// Returns a block's tensors, in the order of BlockActivations.
std::vector<ActivationSpec> block_activation_specs(const std::vector<Sublayer>& sublayers);

// Allocates one such tensor for `rows` rows. `dtype` is the compute dtype.
Tensor make_activation(Memory& memory, Category category, const Layout& layout, DType dtype,
                       size_t rows, const ActivationSpec& spec);

// SharedActivations is the memory that all blocks use in turn, and all micro-batches: that of the
// tensors that blocks drop (category workspace), and that of the tensors which wait for backward on
// the host (category activations).
class SharedActivations {
 public:
  // Allocates what the plans need for `rows` rows. `dtype` is the compute dtype.
  SharedActivations(Memory& memory, const Layout& layout, DType dtype, size_t rows,
                    RecomputePlan plan, OffloadPlan offload);

  const RecomputePlan& plan() const { return plan_; }
  const OffloadPlan& offload() const { return offload_; }
  // Returns a block's tensor, by its index in BlockActivations; null if it does not lie here.
  const Tensor* find(size_t block, size_t index) const;

 private:
  RecomputePlan plan_;
  OffloadPlan offload_;
  std::vector<ActivationSpec> specs_;
  // By set and by place, then by its index in BlockActivations.
  std::vector<std::vector<Tensor>> dropped_, offloaded_;
};

// Activations are the tensors that forward saves for backward, for the part of the model that the
// layout describes. They are allocated once for the largest micro-batch, in the category
// activations. A smaller micro-batch uses the front of each tensor.
class Activations {
 public:
  // Allocates for at most `batch` sequences of `tokens` tokens. `dtype` is the compute dtype.
  // What blocks share lies in `shared`, which must outlive this object; if it is null, they share
  // nothing.
  Activations(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens,
              const SharedActivations* shared = nullptr);

  // From now on the tensors are those of `batch` sequences of `tokens` tokens.
  // REQUIRES: batch * tokens is at most the product that was allocated.
  void resize(size_t batch, size_t tokens);

  size_t batch() const { return batch_; }
  size_t tokens() const { return tokens_; }
  // Returns what blocks drop.
  RecomputePlan plan() const { return shared_ == nullptr ? RecomputePlan() : shared_->plan(); }
  // The residual stream (n, C) after the embeddings, or as the previous pipeline stage sends it.
  TensorView input() const { return rows(input_, hidden_); }
  // The residual stream (n, C) where the last transformer block of this part ends.
  TensorView output() const { return block_input(blocks_.size()); }
  BlockActivations block(size_t index) const;
  // Returns all memory of a block's tensor, by its index in BlockActivations.
  const Tensor& tensor(size_t block, size_t index) const {
    const Tensor* tensor = find_shared(block, index);
    return tensor == nullptr ? blocks_[block][index] : *tensor;
  }
  TensorView block_input(size_t index) const;  // (n, C)
  // These exist in parts with the final norm. final_norm() is the norm's output (n, C), which the
  // classifier overwrites with the gradient of the loss with respect to it. Mean and rstd are (n).
  TensorView final_norm() const { return rows(final_norm_, hidden_); }
  TensorView final_mean() const { return rows(final_mean_); }  // empty for RMSNorm
  TensorView final_rstd() const { return rows(final_rstd_); }

 private:
  // Return a tensor of the residual stream as (n, columns) and as (n).
  TensorView rows(const Tensor& tensor, size_t columns) const;
  TensorView rows(const Tensor& tensor) const;
  Shape shape_of(const ActivationSpec& spec) const;
  // Returns the tensor in shared memory, by its index in BlockActivations; null if it is not there.
  const Tensor* find_shared(size_t block, size_t index) const {
    return shared_ == nullptr ? nullptr : shared_->find(block, index);
  }

  size_t hidden_;
  ModelPartition part_;
  size_t batch_, tokens_, capacity_;  // capacity_ is the number of rows that are allocated
  const SharedActivations* shared_;
  std::vector<ActivationSpec> block_specs_;  // of a block that lacks nothing
  // By block, then by its index in BlockActivations. Tensors in shared memory are empty.
  std::vector<std::vector<Tensor>> blocks_;
  Tensor input_, final_norm_, final_mean_, final_rstd_;
};

// ModelWorkspace is the memory that forward and backward need while they run. Its category is
// workspace.
class ModelWorkspace {
 public:
  // Allocates for at most `batch` sequences of `tokens` tokens. What tensor-parallel ranks sum or
  // gather comes from `registered`, or from the arena if that is null. `rounds_logits` says that
  // logits have `dtype`.
  ModelWorkspace(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens,
                 MemorySource* registered = nullptr, bool rounds_logits = false);

  // The views below have the sizes of the micro-batch that `activations` is for at the moment. In
  // the course of backward d_residual (n, C) is the gradient with respect to the residual stream.
  TensorView d_residual(const Activations& activations) const;
  // The losses of all rows (R). They exist in parts with the classifier.
  TensorView losses(const Activations& activations) const;
  BlockWorkspace block(const Activations& activations) const;
  ClassifierWorkspace classifier() const;

 private:
  size_t hidden_, inner_columns_, head_columns_, num_heads_,
      num_logits_ = 0;  // num_logits_ without padding
  ModelPartition part_;
  Tensor d_residual_, gathered_, inner_, row_dot_, rotary_table_, adapters_;
  Tensor losses_, logits_, dlogits_;
  // What tensor-parallel ranks sum: BlockWorkspace::hidden, then the classifier's statistics.
  Tensor summed_;
};

}  // namespace ladder
