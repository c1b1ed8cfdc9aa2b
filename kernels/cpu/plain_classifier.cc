#include "kernels/cpu/plain_classifier.h"

#include <algorithm>
#include <cmath>

namespace ladder::cpu {

PlainClassifier plain_classifier_forward(std::span<const double> logits,
                                         std::span<const size_t> targets) {
  const size_t rows = targets.size(), columns = logits.size() / rows;
  PlainClassifier result;
  for (size_t r = 0; r < rows; ++r) {
    const std::span<const double> row = logits.subspan(r * columns, columns);
    // Taking the largest logit off all of them changes nothing in the result, but keeps exp from
    // overflowing.
    const double maximum = *std::ranges::max_element(row);
    double sum = 0;
    for (double logit : row) {
      result.exponentials.push_back(std::exp(logit - maximum));
      sum += result.exponentials.back();
    }
    // -log(exp(target - maximum) / sum), without the exponential, which may be 0.
    result.losses.push_back(std::log(sum) - (row[targets[r]] - maximum));
    result.maximum.push_back(maximum);
    result.sum.push_back(sum);
  }
  return result;
}

std::vector<double> plain_classifier_backward(const PlainClassifier& forward,
                                              std::span<const size_t> targets) {
  const size_t rows = targets.size(), columns = forward.exponentials.size() / rows;
  std::vector<double> dlogits;
  for (size_t r = 0; r < rows; ++r) {
    // Raising a logit raises log(sum) by its probability, and the target's logit is taken off.
    for (size_t v = 0; v < columns; ++v) {
      const double probability = forward.exponentials[r * columns + v] / forward.sum[r];
      dlogits.push_back(probability - (v == targets[r] ? 1 : 0));
    }
  }
  return dlogits;
}

}  // namespace ladder::cpu
