// 14.1: the softmax over all keys at once; and a number that is added to all scores changes no
// result.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_14_1(Cases& cases,
                       void (*merge_results)(double& result, double& logsum, double other_result,
                                             double other_logsum)) {
  for (const double far : {0., 2000., -2000.}) {  // one of the two hardly counts, or both equally
    cases.begin(text("the results 1 and 2, the logsums 0 and ", far));
    double result = 1, logsum = 0;
    merge_results(result, logsum, 2, far);
    cases.draw("result ", result, ", logsum ", logsum);
    const double expected = far == 0 ? 1.5 : far > 0 ? 2 : 1;
    const double log_expected = far == 0 ? std::log(2) : std::max(far, 0.);
    cases.expect(std::abs(result - expected) <= 1e-9, "the result must be ", expected);
    cases.expect(std::abs(logsum - log_expected) <= 1e-9, "logsum must be ", log_expected);
  }
  const std::vector<std::pair<double, double>> sums = {{1, 3}, {3, 1}, {0.01, 5}, {10, 36}};
  for (const double more : {0., -2000., 2000.}) {  // added to all scores, which changes no result
    for (const auto& [a, b] : sums) {
      for (const auto& [x, y] : {std::pair{18., 26.}, {26., 18.}}) {
        cases.begin(text("the results ", x, " and ", y, ", the logsums log(", a, ")",
                         more == 0 ? "" : text(" + ", more), " and log(", b, ")",
                         more == 0 ? "" : text(" + ", more)));
        double result = x, logsum = std::log(a) + more;
        merge_results(result, logsum, y, std::log(b) + more);
        const size_t marks = static_cast<size_t>(std::lround(40 * a / (a + b)));
        cases.draw("weights ", std::string(marks, 'a'), std::string(40 - marks, 'b'), "\nresult ",
                   result, ", logsum ", logsum);
        // logsums near 2000 are themselves rounded by 2e-13.
        const double expected = (a * x + b * y) / (a + b), log_expected = std::log(a + b) + more;
        cases.expect(std::abs(result - expected) <= 1e-9, "the result must be ", expected);
        cases.expect(std::abs(logsum - log_expected) <= 1e-9, "logsum must be ", log_expected);
      }
    }
  }
}

}  // namespace ladder::puzzles
