// 11.1: adds up the memory for every K.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_11_1(Cases& cases, int (*best_group)(int blocks)) {
  for (int blocks = 1; blocks <= 200; ++blocks) {
    cases.begin(text("blocks = ", blocks));
    const int got = best_group(blocks);
    cases.draw("k: kept, c: computed again");
    std::vector<int> memory;  // by K - 1
    for (int k = 1; k <= blocks; ++k) {
      int kept = 0;
      for (int first = 0; first < blocks; first += k) ++kept;
      memory.push_back(kept + 16 * k);
      if (k <= 8) {
        cases.draw("K = ", k, k == got ? " * " : "   ", std::string(kept / 4, 'k'),
                   std::string(4 * k, 'c'), " ", memory.back());
      }
    }
    const auto best = std::min_element(memory.begin(), memory.end());
    cases.expect(got == best - memory.begin() + 1, "you return ", got,
                 ", and K = ", best - memory.begin() + 1, " takes ", *best);
  }
}

}  // namespace ladder::puzzles
