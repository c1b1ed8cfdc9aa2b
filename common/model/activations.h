// The memory of one micro-batch: what forward saves, and what backward works in.
#pragma once

#include <vector>

#include "common/model/block.h"
#include "common/model/classifier.h"
#include "common/model/config.h"

namespace ladder {

// What forward saves for backward. Allocated once for the largest micro-batch; a smaller one uses
// the front of each tensor. Category: activations.
class Activations {
 public:
  Activations(Memory& memory, const Gpt2Config& config, DType dtype, size_t batch, size_t tokens);

  // Elements allocated for B sequences of T tokens:
  //   B T (C (16 L + 2) + L (NH + 4) + 2)
  // Per block: 2 layernorm outputs, q, k, v, attention, middle, out (8 C), fc and gelu (8 C), and
  // NH + 4 row numbers; besides the embedding's output and the final norm's output and statistics.
  static size_t num_elements(const Gpt2Config& config, size_t batch, size_t tokens);

  // From here on the tensors are of `batch` sequences of `tokens` tokens.
  // REQUIRES: batch * tokens <= the product that was allocated.
  void resize(size_t batch, size_t tokens);

  size_t batch() const { return batch_; }
  size_t tokens() const { return tokens_; }
  TensorView embedded() const { return rows(embedded_, config_.hidden); }  // (R, C)
  BlockActivations block(size_t layer) const;
  TensorView block_input(size_t layer) const;                                  // (R, C)
  TensorView final_norm() const { return rows(final_norm_, config_.hidden); }  // (R, C)
  TensorView final_mean() const { return rows(final_mean_); }                  // (R)
  TensorView final_rstd() const { return rows(final_rstd_); }                  // (R)

 private:
  struct Block {
    Tensor ln_1, ln_1_mean, ln_1_rstd, qkv, logsumexp, attention, middle, ln_2, ln_2_mean,
        ln_2_rstd, fc, gelu, out;
  };
  TensorView rows(const Tensor& tensor, size_t columns) const {
    return tensor.view().elements(0, {batch_ * tokens_, columns});
  }
  TensorView rows(const Tensor& tensor) const {
    return tensor.view().elements(0, {batch_ * tokens_});
  }

  Gpt2Config config_;
  size_t batch_, tokens_;
  std::vector<Block> blocks_;
  Tensor embedded_, final_norm_, final_mean_, final_rstd_;
};

// What forward and backward work in and leave nothing in. Category: workspace.
class ModelWorkspace {
 public:
  ModelWorkspace(Memory& memory, const Gpt2Config& config, DType dtype, size_t batch,
                 size_t tokens);

  // Elements allocated for B sequences of T tokens, with K = min(B T, kClassifierRows):
  //   B T (6 C + NH + 1) + K (V + 3)
  static size_t num_elements(const Gpt2Config& config, size_t batch, size_t tokens);

  // All for a micro-batch as `activations` has it now.
  TensorView d_residual(const Activations& activations) const;  // (R, C)
  TensorView losses(const Activations& activations) const;      // (R)
  BlockWorkspace block(const Activations& activations) const;
  ClassifierWorkspace classifier() const;

 private:
  Gpt2Config config_;
  Tensor d_residual_, narrow_, wide_, row_dot_, losses_;
  Tensor logits_, maximum_, sum_, target_logit_;
};

}  // namespace ladder
