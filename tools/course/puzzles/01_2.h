// 01.2: the mean of all gradients so far with weights 1, 0.9, 0.81, ... from the newest back.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_01_2(Cases& cases, double (*mean)(double& moment, double gradient, int step)) {
  Draws draw;
  for (const bool is_constant : {true, false}) {
    for (const int steps : {1, 2, 3, 12}) {
      std::vector<double> gradients;
      for (int i = 0; i < steps; ++i) gradients.push_back(is_constant ? 5 : draw(1, 8));
      cases.begin(text("the gradients ", listed(gradients)));
      double moment = 0, rule = 0;
      for (int step = 1; step <= steps; ++step) {
        const double gradient = gradients[step - 1];
        const double got = mean(moment, gradient, step);
        rule = 0.9 * rule + 0.1 * gradient;
        double sum = 0, weights = 0;
        for (int i = 0; i < step; ++i) {
          const double weight = std::pow(0.9, step - 1 - i);
          sum += weight * gradients[i];
          weights += weight;
        }
        cases.draw("step ", step, ": gradient ", gradient, ", moment ", moment, ", returned ", got);
        cases.expect(std::abs(moment - rule) <= 1e-9, "the moment must be ", rule);
        cases.expect(std::abs(got - sum / weights) <= 1e-9, "the mean must be ", sum / weights);
      }
    }
  }
}

}  // namespace ladder::puzzles
