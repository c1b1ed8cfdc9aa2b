// Causal attention as plain loops over double: the formula, and nothing else. Read it before
// kernels/attention.h, which computes the same with tiles and without the matrix of probabilities.
// Tests compare the kernels of every device with it.
#pragma once

#include <span>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace ladder::cpu {

// The queries, the keys and the values, which lie side by side in qkv.
enum QkvVector : size_t { kQuery, kKey, kValue };

// B sequences of T tokens, whose vectors have C elements: NH heads of HS elements.
struct AttentionSizes {
  size_t batch, tokens, heads, head_size;

  size_t hidden() const { return heads * head_size; }
  Shape qkv() const { return {batch, tokens, 3 * hidden()}; }  // (B, T, 3 C)
  Shape out() const { return {batch, tokens, hidden()}; }      // (B, T, C)
  Shape statistics() const { return {batch, heads, tokens}; }  // (B, NH, T): one for each query

  // Returns the index in qkv of element d of head h of token t of sequence b.
  size_t at(QkvVector which, size_t b, size_t h, size_t t, size_t d) const {
    return (b * tokens + t) * 3 * hidden() + which * hidden() + h * head_size + d;
  }
  // Returns the index of this element in out.
  size_t at(size_t b, size_t h, size_t t, size_t d) const {
    return (b * tokens + t) * hidden() + h * head_size + d;
  }
  // Returns the index of the probability with which query i sees key j.
  size_t probability(size_t b, size_t h, size_t i, size_t j) const {
    return ((b * heads + h) * tokens + i) * tokens + j;
  }
};

struct PlainAttention {
  std::vector<double> out;            // (B, T, C)
  std::vector<double> logsumexp;      // (B, NH, T)
  std::vector<double> probabilities;  // (B, NH, T, T); 0 for the keys that a query does not see
};

// out = softmax(q k^T / sqrt(HS) + causal mask) v, for each sequence and head. [Vaswani17, 3.2.1]
PlainAttention plain_attention_forward(const AttentionSizes& sizes, std::span<const double> qkv);

// Returns the gradient with respect to qkv, given dout, the gradient with respect to out, and the
// probabilities of forward.
std::vector<double> plain_attention_backward(const AttentionSizes& sizes,
                                             std::span<const double> dout,
                                             std::span<const double> probabilities,
                                             std::span<const double> qkv);

}  // namespace ladder::cpu
