// Softmax cross-entropy as plain loops over double: the formula, and nothing else. Read it before
// kernels/classifier.h and kernels/cpu/classifier.cc, which compute the same in steps that ranks
// can share. Tests compare the kernels of every device with it.
//
// There are R rows of V logits, row after row: one row for each target, one column for each token.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ladder::cpu {

struct PlainClassifier {
  std::vector<double> maximum;       // (R): the largest logit of each row
  std::vector<double> exponentials;  // (R, V): exp(logit - maximum)
  std::vector<double> sum;           // (R): of the exponentials of each row
  std::vector<double> losses;        // (R), in nats
};

// loss = -log(softmax(logits)[target]), row by row, where softmax = exponentials / sum.
PlainClassifier plain_classifier_forward(std::span<const double> logits,
                                         std::span<const size_t> targets);

// Returns the gradient (R, V) of the sum of all losses with respect to the logits.
std::vector<double> plain_classifier_backward(const PlainClassifier& forward,
                                              std::span<const size_t> targets);

}  // namespace ladder::cpu
