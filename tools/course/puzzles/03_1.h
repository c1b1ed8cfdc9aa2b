// 03.1: makes shards longer until they hold all elements, and counts who has which.
#pragma once

#include <map>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_03_1(Cases& cases, int (*owner)(int element, int elements, int ranks)) {
  for (const int elements : {1, 16, 17, 32, 40, 48, 64, 65, 100, 160}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      cases.begin(text("elements = ", elements, ", ranks = ", ranks));
      int length = 16;
      while (ranks * length < elements) length += 16;
      std::map<int, int> owned;
      for (int e = 0; e < elements; ++e) ++owned[owner(e, elements, ranks)];
      for (const auto& [rank, count] : owned) {
        cases.draw("rank ", rank, " ", std::string(count, '='), " ", count);
      }
      for (int e = 0; e < elements; ++e) {
        const int got = owner(e, elements, ranks);
        cases.expect(got >= 0 && got * length <= e && e < (got + 1) * length, "shards have ",
                     length, " elements, so element ", e, " does not belong to rank ", got);
      }
    }
  }
}

}  // namespace ladder::puzzles
