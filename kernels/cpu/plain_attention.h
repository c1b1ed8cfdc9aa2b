// Attention as plain loops over double: the formula, and nothing else. Read it before
// kernels/attention.h, which computes the same with tiles and without the matrix of probabilities.
// Tests compare the kernels of every device with it.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention_mask.h"
#include "kernels/runtime/tensor.h"

namespace ladder::cpu {

// The queries, the keys and the values, which lie side by side in qkv.
enum QkvVector : size_t { kQuery, kKey, kValue };

// B sequences of T tokens. A token has a query of HS elements for each of NH heads: C elements. It
// has a key and a value for each of NKV heads, K elements each, which heads / kv_heads query heads
// share.
struct AttentionSizes {
  size_t batch, tokens, heads, head_size, kv_heads = heads;
  AttentionMask mask = AttentionMask::causal;

  // Returns how many keys query i sees: the first ones.
  size_t seen(size_t i) const { return mask == AttentionMask::causal ? i + 1 : tokens; }

  size_t query_columns() const { return heads * head_size; }   // C
  size_t key_columns() const { return kv_heads * head_size; }  // K
  size_t columns() const { return query_columns() + 2 * key_columns(); }
  Shape qkv() const { return {batch, tokens, columns()}; }        // (B, T, C + 2 K)
  Shape out() const { return {batch, tokens, query_columns()}; }  // (B, T, C)
  Shape statistics() const { return {batch, heads, tokens}; }     // (B, NH, T): one for each query

  // Returns the index in qkv of element d of the query of head h of token t of sequence b, or of
  // the key or value that this head uses.
  size_t at(QkvVector which, size_t b, size_t h, size_t t, size_t d) const {
    const size_t token = (b * tokens + t) * columns();
    if (which == kQuery) return token + h * head_size + d;
    const size_t kv_head = h / (heads / kv_heads);
    return token + query_columns() + (which - kKey) * key_columns() + kv_head * head_size + d;
  }
  // Returns the index of this element in out.
  size_t at(size_t b, size_t h, size_t t, size_t d) const {
    return (b * tokens + t) * query_columns() + h * head_size + d;
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

// out = softmax(q k^T / sqrt(HS) + mask) v, for each sequence and head. [Vaswani17, 3.2.1]
PlainAttention plain_attention_forward(const AttentionSizes& sizes, std::span<const double> qkv);

// Returns the gradient with respect to qkv, given dout, the gradient with respect to out, and the
// probabilities of forward.
std::vector<double> plain_attention_backward(const AttentionSizes& sizes,
                                             std::span<const double> dout,
                                             std::span<const double> probabilities,
                                             std::span<const double> qkv);

}  // namespace ladder::cpu
