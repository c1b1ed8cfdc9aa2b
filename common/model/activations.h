// The memory of one micro-batch: what forward leaves for backward, and what both work in.
#pragma once

#include <vector>

#include "common/model/block.h"
#include "common/model/classifier.h"
#include "common/model/layout.h"

namespace ladder {

// One of the tensors that forward leaves for backward.
struct ActivationSpec {
  enum class Kind {
    rows,             // (R, columns) of the compute dtype
    row_statistics,   // (R) of the accumulation dtype
    head_statistics,  // (B, NH, T) of the accumulation dtype
  };
  const char* name;
  Kind kind;
  size_t columns = 1;  // in a row; heads of head_statistics
  bool split = false;  // among tensor-parallel ranks: each has an N-th of the columns
};

// The tensors of a block, in the order of BlockActivation::Index. All have R = B T rows.
std::vector<ActivationSpec> block_activation_specs(const Gpt2Config& config);

// What forward saves for backward, of the part of the model that the layout describes. Allocated
// once for the largest micro-batch; a smaller one uses the front of each tensor. Category:
// activations.
class Activations {
 public:
  // For at most `batch` sequences of `tokens` tokens.
  Activations(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens);

  // From here on the tensors are of `batch` sequences of `tokens` tokens.
  // REQUIRES: batch * tokens <= the product that was allocated.
  void resize(size_t batch, size_t tokens);

  size_t batch() const { return batch_; }
  size_t tokens() const { return tokens_; }
  // The residual stream (R, C) where this part begins, after the embeddings that it has.
  TensorView input() const { return rows(input_, hidden_); }
  // The residual stream where its last block ends.
  TensorView output() const { return block_input(blocks_.size()); }
  BlockActivations block(size_t index) const;
  TensorView block_input(size_t index) const;  // (R, C)
  // In parts with the final norm: its output. The classifier overwrites it with the gradient of the
  // loss with respect to it.
  TensorView final_norm() const { return rows(final_norm_, hidden_); }  // (R, C)
  TensorView final_mean() const { return rows(final_mean_); }           // (R)
  TensorView final_rstd() const { return rows(final_rstd_); }           // (R)

 private:
  TensorView rows(const Tensor& tensor, size_t columns) const {
    return tensor.view().elements(0, {batch_ * tokens_, columns});
  }
  TensorView rows(const Tensor& tensor) const {
    return tensor.view().elements(0, {batch_ * tokens_});
  }
  // Of what this rank has of the tensor.
  size_t columns_of(const ActivationSpec& spec) const {
    return spec.split ? spec.columns / tensor_size_ : spec.columns;
  }
  Shape shape_of(const ActivationSpec& spec) const;

  size_t hidden_, tensor_size_;
  size_t batch_, tokens_, capacity_;  // capacity_: rows allocated
  std::vector<ActivationSpec> block_specs_;
  std::vector<std::vector<Tensor>> blocks_;  // by block, by BlockActivation::Index
  Tensor input_, final_norm_, final_mean_, final_rstd_;
};

// What forward and backward work in and leave nothing in. Category: workspace.
class ModelWorkspace {
 public:
  // For at most `batch` sequences of `tokens` tokens. `registered`: where the memory comes from
  // that tensor-parallel ranks sum; null: from where all other comes.
  ModelWorkspace(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens,
                 MemorySource* registered = nullptr);

  // All for a micro-batch as `activations` has it now.
  TensorView d_residual(const Activations& activations) const;  // (R, C)
  TensorView losses(const Activations& activations) const;      // (R), with the classifier
  BlockWorkspace block(const Activations& activations) const;
  ClassifierWorkspace classifier() const;

 private:
  size_t hidden_, tensor_size_, num_heads_;  // num_heads_: of this rank
  Tensor d_residual_, wide_, row_dot_, losses_, logits_, dlogits_;
  Tensor summed_;  // what tensor-parallel ranks sum: narrow, then the classifier's statistics
};

}  // namespace ladder
