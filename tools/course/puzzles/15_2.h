// 15.2: names every token, lets it arrive, and looks at the order in which the experts find them.
#pragma once

#include "tools/course/puzzles/15_1.h"

namespace ladder::puzzles {

inline void check_15_2(Cases& cases,
                       std::vector<int> (*by_expert)(const std::vector<std::vector<int>>& counts)) {
  Draws draw;
  for (const int senders : {1, 2, 3, 4}) {
    for (const int experts : {1, 2, 3}) {
      for (const int most : {1, 1, 2}) {
        const Table counts = table_of(senders, experts, [&](int, int) { return draw(0, most); });
        std::vector<std::pair<int, int>> tokens;  // expert and sender, in the order of arrival
        for (int s = 0; s < senders; ++s) {
          for (int e = 0; e < experts; ++e) tokens.insert(tokens.end(), counts[s][e], {e, s});
        }
        cases.begin(text("senders: ", senders, ", experts: ", experts));
        cases.draw("counts:\n", drawn("sender", "expert", counts));
        const std::vector<int> got = by_expert(counts);
        cases.draw("you return ", listed(got));
        const std::vector<int> at = items_at(cases, got, tokens.size());
        std::string line;
        for (const int i : at) line += text(" ", tokens[i].second, ":", tokens[i].first);
        cases.draw("order of the experts, as sender:expert:", line);
        for (size_t i = 0; i + 1 < at.size(); ++i) {
          const auto &here = tokens[at[i]], &next = tokens[at[i + 1]];
          cases.expect(here < next || (here == next && at[i] < at[i + 1]), "arrival ", at[i + 1],
                       " must not follow arrival ", at[i]);
        }
      }
    }
  }
}

}  // namespace ladder::puzzles
