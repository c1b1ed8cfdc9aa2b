// 00.3: who meets whom, and how often?
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_00_3(Cases& cases, int (*peer)(int rank, int round, int ranks)) {
  for (int n = 1; n <= 7; ++n) {
    cases.begin(text("ranks = ", n));
    const Table of = table_of(n, n, [&](int r, int i) { return peer(r, i, n); });
    cases.draw("The peers:\n", drawn("rank", "round", of));
    for (int r = 0; r < n; ++r) {
      std::vector<int> meets(n);
      for (int i = 0; i < n; ++i) {
        const int other = of[r][i];
        cases.expect(other >= 0 && other < n, "rank ", r, " has no peer ", other);
        cases.expect(of[other][i] == r, "in round ", i, " rank ", r, " wants to meet ", other,
                     ", but rank ", other, " wants to meet ", of[other][i]);
        ++meets[other];
      }
      for (int other = 0; other < n; ++other) {
        cases.expect(meets[other] == 1, "rank ", r,
                     other == r ? text(" meets nobody in ", meets[other], " rounds")
                                : text(" meets rank ", other, " in ", meets[other], " rounds"));
      }
    }
  }
}

}  // namespace ladder::puzzles
