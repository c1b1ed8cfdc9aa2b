// 17.2: tries every grid.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_17_2(Cases& cases,
                       std::pair<int, int> (*grid)(int ranks, int sequences, int wished)) {
  for (int ranks = 1; ranks <= 13; ++ranks) {
    for (const auto& [sequences, wished] :
         {std::pair{1, 1}, {4, 1}, {24, 1}, {4, 2}, {24, 2}, {6, 4}, {1, 6}, {24, 4}, {24, 6}}) {
      cases.begin(text("ranks = ", ranks, ", sequences = ", sequences, ", wished = ", wished));
      const std::pair<int, int> got = grid(ranks, sequences, wished);
      std::pair<int, int> best = {1, 1};
      for (int tensor = 1; tensor <= wished; ++tensor) {
        for (int data = 1; data * tensor <= ranks; ++data) {
          if (wished % tensor != 0 || sequences % data != 0) continue;
          cases.draw(data, " x ", tensor, got == std::pair(data, tensor) ? " * " : "   ",
                     std::string(data * tensor, '#'), std::string(ranks - data * tensor, '.'));
          if (data * tensor >= best.first * best.second) best = {data, tensor};
        }
      }
      cases.expect(got == best, "you return {", got.first, ", ", got.second,
                   "}, and of these it is {", best.first, ", ", best.second, "}");
    }
  }
}

}  // namespace ladder::puzzles
