#include "tools/measure/versions/errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/cost.h"

namespace ladder::versions {
namespace {

using cpu::AttentionSizes, cpu::kKey, cpu::kQuery, cpu::kValue;

// The relative error of so many operations of fp32 in a row; 1 % more for their products.
double of_roundings(double roundings) { return 1.01 * roundings * 0x1p-24; }

// Half a last place of a number of bf16 of this size. The smallest numbers have no 8 bits.
double of_storing(DType dtype, double size) {
  return dtype == DType::bf16 ? std::max(0x1p-8 * size, 0x1p-134) : 0;
}

// The largest error so far, of which NaN is the worst.
struct Worst {
  double part = 0;

  // `bound` is for the sum; the number is then stored as `dtype`.
  void see(DType dtype, double got, double expected, double bound) {
    const double all = bound + of_storing(dtype, std::abs(expected) + bound);
    const double of_bound = got == expected ? 0 : std::abs(got - expected) / all;
    part = of_bound <= part ? part : of_bound;
    if (std::isnan(part)) part = std::numeric_limits<double>::infinity();
  }
};

// The sizes of what is summed up for one query, and how far its rounded factors move the sums.
struct QuerySums {
  std::vector<double> size, of_factors;
  double score_error = 0;  // the largest, in units of 2^-24
};

QuerySums sums_of(const AttentionSizes& s, DType factors, std::size_t b, std::size_t h,
                  std::size_t i, std::span<const double> qkv, std::span<const double> p) {
  QuerySums sums{std::vector<double>(s.head_size), std::vector<double>(s.head_size)};
  const double scale = 1 / std::sqrt(number_of(s.head_size));
  for (std::size_t j = 0; j <= i; ++j) {
    const double pij = p[s.probability(b, h, i, j)];
    double score = 0, score_size = 0;
    for (std::size_t d = 0; d < s.head_size; ++d) {
      const double term = scale * qkv[s.at(kQuery, b, h, i, d)] * qkv[s.at(kKey, b, h, j, d)];
      score += term;
      score_size += std::abs(term);
      const double v = std::abs(qkv[s.at(kValue, b, h, j, d)]);
      sums.size[d] += pij * v;
      sums.of_factors[d] += of_storing(factors, pij) * v;
    }
    // HS products and additions, the rounded scale (2) and its product; then the maximum is taken
    // off.
    sums.score_error =
        std::max(sums.score_error, (number_of(s.head_size) + 4) * score_size + 4 * std::abs(score));
  }
  return sums;
}

}  // namespace

double product_error(std::span<const double> c, std::span<const double> a,
                     std::span<const double> b, std::size_t k, std::size_t first_row,
                     std::size_t step) {
  const std::size_t n = b.size() / k, m = a.size() / k;
  Worst worst;
  std::vector<double> sum(n), size(n);
  for (std::size_t i = first_row; i < m; i += step) {
    std::ranges::fill(sum, 0);
    std::ranges::fill(size, 0);
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) {
        const double term = a[i * k + l] * b[l * n + j];
        sum[j] += term;
        size[j] += std::abs(term);
      }
    }
    // Products of bf16 are exact in fp32. They are added up in any order: each is rounded at most
    // k times on its way to the sum.
    for (std::size_t j = 0; j < n; ++j) {
      worst.see(DType::bf16, c[i * n + j], sum[j], of_roundings(number_of(k)) * size[j]);
    }
  }
  return worst.part;
}

// An exponential is off by its argument's error (twice: the score's and the maximum's) and by 4 ulp
// (8 units). Every later tile of keys corrects it, by an exponential (8) and a product (1); a tile
// has at least 16 keys. Numerator and denominator have all this, and both are sums of T terms; few
// roundings follow. The logarithm turns the relative error into an absolute one, and has 4 ulp too.
double attention_error(const AttentionSizes& s, DType dtype, DType factors,
                       std::span<const double> out, std::span<const double> logsumexp,
                       std::span<const double> qkv) {
  const cpu::PlainAttention expected = cpu::plain_attention_forward(s, qkv);
  const double tokens = number_of(s.tokens), corrections = 9 * (tokens / 16 + 1);
  Worst worst;
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) {
      for (std::size_t i = 0; i < s.tokens; ++i) {
        const QuerySums sums = sums_of(s, factors, b, h, i, qkv, expected.probabilities);
        const double roundings = 2 * (2 * sums.score_error + tokens + 8 + corrections) + 4;
        for (std::size_t d = 0; d < s.head_size; ++d) {
          const std::size_t at = s.at(b, h, i, d);
          worst.see(dtype, out[at], expected.out[at],
                    of_roundings(roundings) * sums.size[d] + 1.01 * sums.of_factors[d]);
        }
        const std::size_t row = (b * s.heads + h) * s.tokens + i;
        const double log = expected.logsumexp[row];
        worst.see(DType::fp32, logsumexp[row], log, of_roundings(roundings + 9 * std::abs(log)));
      }
    }
  }
  return worst.part;
}

}  // namespace ladder::versions
