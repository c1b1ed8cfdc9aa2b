// The memory of one micro-batch: what forward saves, and what backward works in.
#pragma once

#include <vector>

#include "common/model/block.h"
#include "common/model/classifier.h"
#include "common/model/layout.h"

namespace ladder {

// What forward saves for backward, of the part of the model that the layout describes. Allocated
// once for the largest micro-batch; a smaller one uses the front of each tensor. Category:
// activations.
class Activations {
 public:
  Activations(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens);

  // Bytes allocated for B sequences of T tokens, L blocks here and N tensor-parallel ranks, with x
  // and a bytes an element of dtype and of what it is accumulated in:
  //   B T (L ((4 + 12/N) C x + (NH/N + 4) a) + C x), and B T (C x + 2 a) more with the final norm
  // Per block: 2 layernorm outputs, middle, out (4 C), q, k, v, attention (4 C/N), fc and gelu
  // (8 C/N), and NH/N + 4 row numbers; besides the part's input, and the final norm's output and
  // statistics.
  static size_t num_bytes(const Layout& layout, DType dtype, size_t batch, size_t tokens);

  // From here on the tensors are of `batch` sequences of `tokens` tokens.
  // REQUIRES: batch * tokens <= the product that was allocated.
  void resize(size_t batch, size_t tokens);

  size_t batch() const { return batch_; }
  size_t tokens() const { return tokens_; }
  // The residual stream where this part begins (behind embeddings that it has). (R, C)
  TensorView input() const { return rows(input_, hidden_); }
  // Where its last block ends.
  TensorView output() const { return block_input(blocks_.size()); }
  BlockActivations block(size_t layer) const;
  TensorView block_input(size_t layer) const;  // (R, C)
  // With the final norm: its output, which the classifier's gradient with respect to it replaces.
  TensorView final_norm() const { return rows(final_norm_, hidden_); }  // (R, C)
  TensorView final_mean() const { return rows(final_mean_); }           // (R)
  TensorView final_rstd() const { return rows(final_rstd_); }           // (R)

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

  size_t hidden_, tensor_size_, num_heads_;  // num_heads_: of this rank
  size_t batch_, tokens_, capacity_;         // capacity_: rows allocated
  std::vector<Block> blocks_;
  Tensor input_, final_norm_, final_mean_, final_rstd_;
};

// What forward and backward work in and leave nothing in. Category: workspace.
class ModelWorkspace {
 public:
  // `registered`: where the memory comes from that tensor-parallel ranks sum; null: as all other.
  // Makes one allocation there.
  ModelWorkspace(Memory& memory, const Layout& layout, DType dtype, size_t batch, size_t tokens,
                 MemorySource* registered = nullptr);

  // Bytes allocated for B sequences of T tokens and N tensor-parallel ranks, with x and a as above
  // and K = min(B T, kClassifierRows):
  //   B T ((2 + 4/N) C x + NH/N a), and with the classifier (B T + K (V/N + 3)) a more
  // where V/N are the tokens of this rank's slice; and K V/N x for the logits' gradients where x is
  // not a.
  static size_t num_bytes(const Layout& layout, DType dtype, size_t batch, size_t tokens);

  // All for a micro-batch as `activations` has it now.
  TensorView d_residual(const Activations& activations) const;  // (R, C)
  TensorView losses(const Activations& activations) const;      // (R), with the classifier
  BlockWorkspace block(const Activations& activations) const;
  ClassifierWorkspace classifier() const;

 private:
  size_t hidden_, tensor_size_, num_heads_;  // num_heads_: of this rank
  Tensor d_residual_, wide_, row_dot_, losses_, logits_, dlogits_;
  Tensor summed_;  // what tensor-parallel ranks sum: narrow, then the classifier's numbers
};

}  // namespace ladder
