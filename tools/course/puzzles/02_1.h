// 02.1: backward and the link as two engines, in time.
#pragma once

#include "tools/course/puzzles/engines.h"

namespace ladder::puzzles {

inline void check_02_1(Cases& cases,
                       int (*waits)(const std::vector<int>& ready, const std::vector<int>& takes)) {
  Draws draw;
  std::vector<Table> all = {{{2, 2}, {3, 1}}};
  for (int i = 0; i < 120; ++i) {  // small ones first
    all.push_back(table_of(2, 1 + i / 20, [&](int, int) { return draw(1, 2 + i % 20 / 4); }));
  }
  for (const Table& takes : all) {
    std::vector<int> ready = takes[0];
    std::partial_sum(ready.begin(), ready.end(), ready.begin());
    cases.begin(text("ready = {", listed(ready), "}, takes = {", listed(takes[1]), "}"));
    const EngineSpans spans = run_engines(takes, static_cast<int>(ready.size()));
    cases.draw(drawn("backward", spans[0]), "|\n", drawn("sums    ", spans[1]));
    const int expected = spans[1].back().end - ready.back(), got = waits(ready, takes[1]);
    cases.expect(got == expected, "you return ", got, ", and it is ", expected);
  }
}

}  // namespace ladder::puzzles
