// 07.1: goes through the matrix, and gives each column to the rank that has its head.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_07_1(Cases& cases, int (*column)(int i, int rank, int ranks, int hidden)) {
  for (int hidden = 1; hidden <= 12; ++hidden) {
    for (int ranks = 1; ranks <= std::min(hidden, 4); ++ranks) {
      if (hidden % ranks != 0) continue;
      cases.begin(text("ranks = ", ranks, ", hidden = ", hidden));
      Table expected(ranks), got(ranks);
      std::string drawing;
      for (int c = 0; c < 3 * hidden; ++c) {
        expected[c % hidden / (hidden / ranks)].push_back(c);
      }
      for (int r = 0; r < ranks; ++r) {
        for (int i = 0; i < 3 * hidden / ranks; ++i) got[r].push_back(column(i, r, ranks, hidden));
        std::string line(3 * hidden, '.');
        for (const int c : got[r]) {
          if (c >= 0 && c < 3 * hidden) line[c] = "qkv"[c / hidden];
        }
        cases.draw("rank ", r, " ", line);
      }
      for (int r = 0; r < ranks; ++r) {
        for (size_t i = 0; i < got[r].size(); ++i) {
          cases.expect(got[r][i] == expected[r][i], "column ", i, " of rank ", r, " is not column ",
                       got[r][i], " of the matrix, but ", expected[r][i]);
        }
      }
    }
  }
}

}  // namespace ladder::puzzles
