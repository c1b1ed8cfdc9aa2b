// 13.1: deals the rows out, rank by rank.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_13_1(Cases& cases,
                       std::vector<int> (*rows_of)(const std::vector<std::vector<int>>& terms,
                                                   int rank)) {
  for (int rows = 1; rows <= 7; ++rows) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      cases.begin(text("rows: ", rows, ", ranks: ", ranks));
      const Table terms =
          table_of(ranks, rows, [](int r, int i) { return (i + 1) * (r == 0 ? 1 : 10 * r); });
      cases.draw("Terms:\n", drawn("rank", "row", terms));
      int most = 1;
      while (most * ranks < rows) ++most;
      for (int rank = 0, next = 0; rank < ranks; ++rank) {
        std::vector<int> expected;
        for (int i = 0; i < most && next < rows; ++i, ++next) {
          expected.push_back(0);
          for (const std::vector<int>& of_rank : terms) expected.back() += of_rank[next];
        }
        const std::vector<int> got = rows_of(terms, rank);
        cases.draw("rank ", rank, " gets {", listed(got), "}");
        cases.expect(got == expected, "and it should get {", listed(expected), "}");
      }
    }
  }
}

}  // namespace ladder::puzzles
