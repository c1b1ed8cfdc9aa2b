// 08.2: tries every cut.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_08_2(Cases& cases,
                       int (*cheapest_cut)(const std::vector<int>& costs, int stages)) {
  Draws draw;
  std::vector<std::pair<std::vector<int>, int>> all = {{{2, 1, 1, 3}, 2}};
  for (int layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= std::min(layers, 4); ++stages) {
      all.emplace_back(table_of(1, layers, [&](int, int) { return draw(1, 9); })[0], stages);
    }
  }
  for (const auto& [costs, stages] : all) {
    const int layers = static_cast<int>(costs.size());
    cases.begin(text("costs = {", listed(costs), "}, stages = ", stages));
    int best = 1 << 20, best_cuts = 0;
    for (unsigned cuts = 0; cuts < 1u << (layers - 1); ++cuts) {  // bit i: cut after layer i
      int num_stages = 1, stage = 0, most = 0;
      for (int i = 0; i < layers; ++i) {
        stage += costs[i];
        most = std::max(most, stage);
        if (cuts >> i & 1) ++num_stages, stage = 0;
      }
      if (num_stages == stages && most < best) best = most, best_cuts = static_cast<int>(cuts);
    }
    std::string line;
    for (int i = 0; i < layers; ++i) line += text(costs[i], best_cuts >> i & 1 ? " | " : " ");
    const int got = cheapest_cut(costs, stages);
    cases.expect(got == best, "you return ", got, ", and with the best cut it is ", best, ":\n  ",
                 line);
    cases.draw(line, "  most: ", best);
  }
}

}  // namespace ladder::puzzles
