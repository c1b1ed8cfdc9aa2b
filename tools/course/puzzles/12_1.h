// 12.1: whatever is sent and held, nothing is lost, and the scale is the mean.
#pragma once

#include <cmath>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_12_1(Cases& cases,
                       std::vector<double> (*send_signs)(const std::vector<double>& gradients,
                                                         std::vector<double>& held)) {
  constexpr double kNear = 1e-6;  // an implementation with floats is good enough
  Draws draw;
  for (const size_t n : {1, 2}) {
    for (const int calls : {1, 2, 8}) {
      cases.begin(text("calls: ", calls, ", gradients: ", n));
      std::vector<double> held(n);
      for (int call = 0; call < calls; ++call) {
        std::vector<double> gradients(n), whole = held;
        double scale = 0;
        for (size_t i = 0; i < n; ++i) {
          gradients[i] = draw(-4, 4);
          whole[i] += gradients[i];
          scale += std::abs(whole[i]) / static_cast<double>(n);
        }
        const std::vector<double> before = held, sent = send_signs(gradients, held);
        cases.draw("held ", listed(before), ", gradients ", listed(gradients), ": sent ",
                   listed(sent), ", held ", listed(held));
        cases.expect(sent.size() == n && held.size() == n, "you return ", sent.size(),
                     " numbers and hold ", held.size(), ", and there are ", n);
        for (size_t i = 0; i < n; ++i) {
          cases.expect(std::abs(sent[i] + held[i] - whole[i]) <= kNear, "gradient ", i, ": ",
                       before[i], " were held and ", gradients[i], " came; sent ", sent[i],
                       " and held ", held[i], " are ", sent[i] + held[i]);
          cases.expect(std::abs(std::abs(sent[i]) - scale) <= kNear, "the scale is not ",
                       std::abs(sent[i]), ", but ", scale);
          cases.expect(whole[i] == 0 ? sent[i] >= 0 : sent[i] * whole[i] >= 0, "gradient ", i, ": ",
                       whole[i], " is to be sent, so its sign is ", whole[i] < 0 ? "-" : "+");
        }
      }
    }
  }
}

}  // namespace ladder::puzzles
