// 01.1: the sum itself, in more precision; and a number that is added to all logits changes
// nothing.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_01_1(Cases& cases,
                       double (*loss)(const std::vector<double>& logits, int target)) {
  const std::vector<std::vector<double>> all = {{0},
                                                {5, 5},
                                                {0, 1},
                                                {2, 0},
                                                {1, 2, 3},
                                                {-500, 500},  // e^1000 times as probable
                                                {500, -500},
                                                {500, -500, -500, -500},
                                                {-3, 0.5, 2, 1},
                                                {4, 1, 3, 1, 2, 0, -2, 2.5}};
  for (const double more : {0., 100., 1000., -1000.}) {
    for (std::vector<double> logits : all) {
      for (size_t target = 0; target < logits.size(); ++target) {
        long double sum = 0;
        for (const double logit : logits) sum += std::exp(static_cast<long double>(logit));
        std::vector<double> moved = logits;
        for (double& logit : moved) logit += more;
        cases.begin(text("logits = {", listed(moved), "}, target = ", target));
        for (size_t v = 0; v < logits.size(); ++v) {
          const double p = std::exp(logits[v]) / static_cast<double>(sum);
          cases.draw("token ", v, v == target ? " * " : "   ",
                     std::string(static_cast<size_t>(std::lround(60 * p)), '#'), " ", p);
        }
        const double expected = static_cast<double>(std::log(sum) - logits[target]);
        const double got = loss(moved, static_cast<int>(target));
        cases.draw("loss ", got);
        // Logits near 1000 are themselves rounded by 1e-13.
        cases.expect(std::abs(got - expected) <= 1e-9, "the loss must be ", expected);
      }
    }
  }
}

}  // namespace ladder::puzzles
