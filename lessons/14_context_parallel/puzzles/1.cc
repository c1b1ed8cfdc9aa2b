// 14.1 Two halves of a softmax
//
// A query's result over some keys is the mean of their values, where each value has the weight
// e^score. Two ranks have done this for other keys each. For the keys of a rank, `result` is this
// mean, and `logsum` the logarithm of the sum of the weights. (The sum itself may be too large.)
//
// Changes result and logsum to those over the keys of both ranks.
// Example: sums 10 and 30, results 18 and 26: the sum is 40, and the result (180 + 780) / 40 = 24.
// logsum is not 10, but log(10); it may be 2000, and e^2000 is larger than any double.
#include <algorithm>
#include <cmath>

void merge_results(double& result, double& logsum, double other_result, double other_logsum) {
  throw "not written yet";  // yours
}
