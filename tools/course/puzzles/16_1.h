// 16.1: follows a micro-batch.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_16_1(Cases& cases, int (*virtual_stage)(int stage, int chunk, int stages)) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      cases.begin(text("stages = ", stages, ", chunks: ", chunks));
      const Table got =
          table_of(stages, chunks, [&](int s, int c) { return virtual_stage(s, c, stages); });
      cases.draw(drawn("stage", "chunk", got));
      int stage = 0, direction = 1;
      for (int v = 0; v < stages * chunks; ++v) {
        const int chunk = v / stages;
        cases.expect(got[stage][chunk] == v, "the micro-batch comes to chunk ", chunk, " of stage ",
                     stage, " after ", v, " others, and you return ", got[stage][chunk]);
        if ((v + 1) % stages == 0) {
          direction = -direction;  // this stage goes on itself
        } else {
          stage += direction;
        }
      }
    }
  }
}

}  // namespace ladder::puzzles
