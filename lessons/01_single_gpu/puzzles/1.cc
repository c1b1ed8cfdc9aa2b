// 01.1 The surprise
//
// A model gives each token of its vocabulary a score, its logit. The probability of token v is
// e^logits[v], divided by the sum of e^logits[w] over all tokens w. The loss is -log(the
// probability of the target). Logits may be 1000 and -1000 in one list, and e^1000 is larger than
// any double.
//
// Returns the loss (std::log is the natural logarithm).
// Example: logits {5, 5}, target 0: both have the probability 1/2, and the loss is 0.693.
#include <cmath>
#include <vector>

double loss(const std::vector<double>& logits, int target) {
  throw "not written yet";  // yours
}
