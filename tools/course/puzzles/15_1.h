// 15.1: puts every choice into the buffer, and looks at their order there.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// Puts item i at offsets[i], and expects that each gets an offset of its own. Returns the items by
// offset.
inline std::vector<int> items_at(const Cases& cases, const std::vector<int>& offsets,
                                 size_t items) {
  cases.expect(offsets.size() == items, "you return ", offsets.size(), " offsets, and there are ",
               items);
  std::vector<int> at(items, -1);
  for (size_t i = 0; i < items; ++i) {
    cases.expect(offsets[i] >= 0 && size_t(offsets[i]) < items, "the buffer has no offset ",
                 offsets[i]);
    cases.expect(at[offsets[i]] == -1, at[offsets[i]], " and ", i, " are both at offset ",
                 offsets[i]);
    at[offsets[i]] = static_cast<int>(i);
  }
  return at;
}

inline void check_15_1(Cases& cases,
                       std::vector<int> (*offsets)(const std::vector<int>& expert, int experts)) {
  Draws draw;
  for (const int choices : {1, 2, 3, 4, 6, 10}) {
    for (const int experts : {1, 2, 3, 4}) {
      std::vector<int> expert(choices);
      for (int& e : expert) e = draw(0, experts - 1);
      cases.begin(text("expert = {", listed(expert), "}, experts = ", experts));
      const std::vector<int> got = offsets(expert, experts);
      cases.draw("offsets: ", listed(got));
      const std::vector<int> at = items_at(cases, got, expert.size());
      std::string line;
      for (const int choice : at) line += text(" ", choice, ":", expert[choice]);
      cases.draw("buffer, as choice:expert:", line);
      for (size_t i = 0; i + 1 < at.size(); ++i) {
        const int here = at[i], next = at[i + 1];
        cases.expect(expert[here] < expert[next] || (expert[here] == expert[next] && here < next),
                     "choice ", next, " of expert ", expert[next], " must not follow choice ", here,
                     " of expert ", expert[here]);
      }
    }
  }
}

}  // namespace ladder::puzzles
