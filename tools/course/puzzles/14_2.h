// 14.2: counts each rank's slices and pairs.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_14_2(Cases& cases, int (*rank_of)(int token, int tokens, int ranks)) {
  for (int each = 1; each <= 2; ++each) {  // tokens in a slice
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const int tokens = 2 * ranks * each;
      cases.begin(text("tokens = ", tokens, ", ranks = ", ranks));
      std::vector<int> pairs(ranks), slices(ranks), of(tokens);
      for (int t = 0; t < tokens; ++t) {
        of[t] = rank_of(t, tokens, ranks);
        cases.expect(of[t] >= 0 && of[t] < ranks, "token ", t, " has no rank ", of[t]);
        pairs[of[t]] += t + 1;
        std::string line;  // of the square: one query, all keys that it sees
        for (int key = 0; key <= t; ++key) line += text(of[t], " ");
        cases.draw(line);
      }
      cases.draw("pairs by rank: ", listed(pairs));
      for (int t = 0; t < tokens; t += each) {
        ++slices[of[t]];
        for (int i = t; i < t + each; ++i) {
          cases.expect(of[i] == of[t], "tokens ", t, " and ", i, " are in one slice, on the ranks ",
                       of[t], " and ", of[i]);
        }
      }
      for (int r = 0; r < ranks; ++r) {
        cases.expect(slices[r] == 2, "rank ", r, " has ", slices[r], " slices");
        cases.expect(pairs[r] == pairs[0], "rank ", r, " has ", pairs[r], " pairs, and rank 0 has ",
                     pairs[0]);
      }
    }
  }
}

}  // namespace ladder::puzzles
