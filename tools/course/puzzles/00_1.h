// 00.1: plays the rounds, and looks who has what.
#pragma once

#include <set>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_00_1(Cases& cases, int (*sent_part)(int rank, int round, int ranks)) {
  for (int n = 2; n <= 8; ++n) {
    cases.begin(text("ranks = ", n));
    const Table part = table_of(n, n - 1, [&](int r, int i) { return sent_part(r, i, n); });
    cases.draw("The parts that ranks send:\n", drawn("rank", "round", part));
    std::vector<std::set<int>> has(n);
    for (int r = 0; r < n; ++r) has[r] = {r};
    for (int i = 0; i < n - 1; ++i) {
      const std::vector<std::set<int>> before = has;
      for (int r = 0; r < n; ++r) {
        cases.expect(before[r].contains(part[r][i]), "rank ", r, " cannot send part ", part[r][i],
                     " in round ", i, ": it has ", listed(before[r]));
        has[(r + 1) % n].insert(part[r][i]);
      }
    }
    for (int r = 0; r < n; ++r) {
      cases.expect(has[r].size() == size_t(n), "in the end rank ", r, " has only ", listed(has[r]));
    }
  }
}

}  // namespace ladder::puzzles
