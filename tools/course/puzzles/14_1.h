// 14.1: the softmax over all keys at once, in more precision.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_14_1(Cases& cases,
                       void (*merge_results)(double& result, double& logsum, double other_result,
                                             double other_logsum)) {
  const std::vector<std::pair<double, double>> sums = {{1, 1}, {1, 3}, {3, 1}, {10, 36}, {0.01, 5}};
  for (const double more :
       {0., 500., 2000., -2000.}) {  // added to all scores, which changes no result
    for (const auto& [a, b] : sums) {
      for (const auto& [x, y] : {std::pair{18., 26.}, {26., 18.}, {-1., 1.}}) {
        cases.begin(text("results ", x, " and ", y, ", logsums ", std::log(a) + more, " and ",
                         std::log(b) + more));
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
  for (const double far : {800., -800.}) {  // one of the two hardly counts
    cases.begin(text("results 1 and 2, logsums 0 and ", far));
    double result = 1, logsum = 0;
    merge_results(result, logsum, 2, far);
    cases.draw("result ", result, ", logsum ", logsum);
    cases.expect(result == (far > 0 ? 2 : 1) && logsum == std::max(far, 0.),
                 "the smaller sum does not count");
  }
}

}  // namespace ladder::puzzles
