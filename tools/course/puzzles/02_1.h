// 02.1: backward and the link as two engines, in time.
#pragma once

#include "tools/course/puzzles/engines.h"

namespace ladder::puzzles {

inline void check_02_1(Cases& cases,
                       int (*waits)(const std::vector<int>& ready, const std::vector<int>& takes)) {
  Draws draw;
  for (int buckets = 1; buckets <= 6; ++buckets) {
    for (int i = 0; i < 20; ++i) {
      Table takes = table_of(2, buckets, [&](int, int) { return draw(1, 6); });
      std::vector<int> ready;
      for (const int backward : takes[0])
        ready.push_back(backward + (ready.empty() ? 0 : ready.back()));
      cases.begin(text("ready = {", listed(ready), "}, takes = {", listed(takes[1]), "}"));
      const EngineSpans spans = run_engines(takes, buckets);
      cases.draw(drawn("backward", spans[0]), "|\n", drawn("sums    ", spans[1]));
      const int expected = spans[1].back().end - ready.back(), got = waits(ready, takes[1]);
      cases.expect(got == expected, "you return ", got, ", and it is ", expected);
    }
  }
}

}  // namespace ladder::puzzles
