#include "kernels/cpu/plain_attention.h"

#include <algorithm>
#include <cmath>

namespace ladder::cpu {
namespace {

// Calls body(b, h, i) for every query: token i of head h of sequence b.
template <class Body>
void for_queries(const AttentionSizes& s, Body body) {
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t i = 0; i < s.tokens; ++i) body(b, h, i);
    }
  }
}

double scale_of(const AttentionSizes& s) { return 1 / std::sqrt(static_cast<double>(s.head_size)); }

}  // namespace

PlainAttention plain_attention_forward(const AttentionSizes& s, std::span<const double> qkv) {
  PlainAttention result;
  result.out.resize(s.out().num_elements());
  result.logsumexp.resize(s.statistics().num_elements());
  result.probabilities.resize(s.statistics().num_elements() * s.tokens);
  for_queries(s, [&](size_t b, size_t h, size_t i) {
    // The score of a key says how well it fits the query. With a causal mask a query
    // sees keys 0 to i, and otherwise all.
    std::vector<double> score(s.seen(i));
    for (size_t j = 0; j < s.seen(i); ++j) {
      for (size_t d = 0; d < s.head_size; ++d) {
        score[j] += qkv[s.at(kQuery, b, h, i, d)] * qkv[s.at(kKey, b, h, j, d)];
      }
      score[j] *= scale_of(s);
    }
    // Softmax turns scores into probabilities. Taking the largest score off all of them changes
    // nothing in the result, but keeps exp from overflowing.
    const double largest = *std::ranges::max_element(score);
    double total = 0;
    for (size_t j = 0; j < s.seen(i); ++j) total += std::exp(score[j] - largest);
    result.logsumexp[(b * s.heads + h) * s.tokens + i] = largest + std::log(total);
    // The output is the mean of the values, weighted by the probabilities.
    for (size_t j = 0; j < s.seen(i); ++j) {
      const double p = std::exp(score[j] - largest) / total;
      result.probabilities[s.probability(b, h, i, j)] = p;
      for (size_t d = 0; d < s.head_size; ++d) {
        result.out[s.at(b, h, i, d)] += p * qkv[s.at(kValue, b, h, j, d)];
      }
    }
  });
  return result;
}

std::vector<double> plain_attention_backward(const AttentionSizes& s, std::span<const double> dout,
                                             std::span<const double> probabilities,
                                             std::span<const double> qkv) {
  std::vector<double> dqkv(s.qkv().num_elements());
  for_queries(s, [&](size_t b, size_t h, size_t i) {
    const double* const p = &probabilities[s.probability(b, h, i, 0)];
    // out = sum of p v, so dp = dout v^T, and dv collects p dout from every query.
    std::vector<double> dp(s.seen(i));
    double mean = 0;
    for (size_t j = 0; j < s.seen(i); ++j) {
      for (size_t d = 0; d < s.head_size; ++d) {
        const double o = dout[s.at(b, h, i, d)];
        dp[j] += o * qkv[s.at(kValue, b, h, j, d)];
        dqkv[s.at(kValue, b, h, j, d)] += p[j] * o;
      }
      mean += p[j] * dp[j];
    }
    // The derivative of softmax: raising one score raises its own probability and lowers all
    // others, so only the difference from the mean remains. Then score = scale * q k^T.
    for (size_t j = 0; j < s.seen(i); ++j) {
      const double dscore = scale_of(s) * p[j] * (dp[j] - mean);
      for (size_t d = 0; d < s.head_size; ++d) {
        dqkv[s.at(kQuery, b, h, i, d)] += dscore * qkv[s.at(kKey, b, h, j, d)];
        dqkv[s.at(kKey, b, h, j, d)] += dscore * qkv[s.at(kQuery, b, h, i, d)];
      }
    }
  });
  return dqkv;
}

}  // namespace ladder::cpu
