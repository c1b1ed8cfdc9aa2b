// Two functions of training in versions, each of which adds one idea to the one before: the product
// C = A B, and attention's forward. README.md tells the story; //kernels:versions runs them.
// Nothing else uses them: training has cuBLAS and kernels/attention.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/kernel.h"

namespace ladder {

struct ProductVersion {
  std::string_view name, idea;
  size_t multiple;  // K and N must be multiples of it
  void (*body)(Stream& stream, TensorView c, ConstTensorView a, ConstTensorView b);

  // c (M, N) = a (M, K) b (K, N) in bf16; sums are fp32, and each is rounded once. Asynchronous on
  // the stream. Throws an Error that says what is wrong with an argument. REQUIRES: the stream's
  // device is no CPU.
  void run(Stream& stream, TensorView c, ConstTensorView a, ConstTensorView b) const;
  // Returns why it does not multiply such matrices; empty if it does.
  std::string refusal(size_t m, size_t n, size_t k) const;
};

struct AttentionVersion {
  std::string_view name, idea;
  DType dtype;                      // of qkv and out
  size_t multiple, most_head_size;  // of the size of a head
  bool needs_scores;
  void (*body)(Stream& stream, TensorView out, TensorView logsumexp, TensorView scores,
               ConstTensorView qkv);

  // Computes attention_forward() (kernels/attention.h) for as many key heads as query heads.
  //   qkv (B, T, 3 C) in; out (B, T, C) and logsumexp (B, NH, T), in fp32, out
  //   scores (B, NH, T, T) workspace in fp32; empty unless needs_scores
  // Asynchronous on the stream. Throws an Error that says what is wrong with an argument. REQUIRES:
  // the stream's device is no CPU.
  void run(Stream& stream, TensorView out, TensorView logsumexp, TensorView scores,
           ConstTensorView qkv) const;
  // Returns why it does not take heads of this size; empty if it does.
  std::string refusal(size_t head_size) const;
};

// Return the versions, from the simplest to the fastest.
std::span<const ProductVersion> product_versions();
std::span<const AttentionVersion> attention_versions();

}  // namespace ladder
