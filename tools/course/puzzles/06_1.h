// 06.1: the three phases as engines, in time.
#pragma once

#include "tools/course/puzzles/engines.h"

namespace ladder::puzzles {

inline void check_06_1(Cases& cases, int (*end_of_copies)(int units, int buffers, int backward,
                                                          int sum, int copy)) {
  const Table times = {{1, 1, 1}, {3, 2, 1}, {3, 1, 1}, {1, 3, 1}, {1, 2, 3}, {2, 5, 4}, {4, 3, 3}};
  for (const int units : {1, 2, 3, 4, 6, 8}) {
    for (int buffers = 1; buffers <= 4; ++buffers) {
      for (const std::vector<int>& t : times) {
        cases.begin(text("units = ", units, ", buffers = ", buffers, ", backward = ", t[0],
                         ", sum = ", t[1], ", copy = ", t[2]));
        const EngineSpans spans =
            run_engines(table_of(3, units, [&](int phase, int) { return t[phase]; }), buffers);
        cases.draw(drawn("backward", spans[0]), "\n", drawn("sum     ", spans[1]), "\n",
                   drawn("copy    ", spans[2]));
        const int got = end_of_copies(units, buffers, t[0], t[1], t[2]);
        cases.expect(got == spans[2].back().end, "you return ", got, ", and it is ",
                     spans[2].back().end);
      }
    }
  }
}

}  // namespace ladder::puzzles
