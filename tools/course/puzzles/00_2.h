// 00.2: plays the rounds, and looks who has what.
#pragma once

#include <set>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_00_2(Cases& cases, int (*partner)(int rank, int round, int ranks)) {
  for (int n = 2, rounds = 1; n <= 16; n *= 2, ++rounds) {
    cases.begin(text("ranks = ", n));
    const Table of = table_of(n, rounds, [&](int r, int i) { return partner(r, i, n); });
    cases.draw("The partners:\n", drawn("rank", "round", of));
    std::vector<std::set<int>> has(n);
    for (int r = 0; r < n; ++r) has[r] = {r};
    for (int i = 0; i < rounds; ++i) {
      const std::vector<std::set<int>> before = has;
      for (int r = 0; r < n; ++r) {
        const int other = of[r][i];
        cases.expect(other >= 0 && other < n && other != r, "rank ", r, " has no partner ", other);
        cases.expect(of[other][i] == r, "in round ", i, " rank ", r, " has the partner ", other,
                     ", but rank ", other, " has the partner ", of[other][i]);
        has[r].insert(before[other].begin(), before[other].end());
      }
    }
    for (int r = 0; r < n; ++r) {
      cases.expect(has[r].size() == size_t(n), "in the end rank ", r, " has only the parts ",
                   listed(has[r]));
    }
  }
}

}  // namespace ladder::puzzles
