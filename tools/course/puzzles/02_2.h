// 02.2: fills the buckets in the order of backward, and asks of each whether it ends where it
// should.
#pragma once

#include <map>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_02_2(Cases& cases, std::vector<int> (*bucket_of)(const std::vector<int>& bytes,
                                                                   int bucket_bytes)) {
  Draws draw;
  for (int units = 2; units <= 7; ++units) {
    for (const int least : {1, 4, 100, 9, 6}) {
      std::vector<int> bytes(units);
      for (int& b : bytes) b = draw(1, 6);
      cases.begin(text("bytes = {", listed(bytes), "}, bucket_bytes = ", least));
      const std::vector<int> bucket = bucket_of(bytes, least);
      cases.expect(bucket.size() == bytes.size(), "you return ", bucket.size(), " buckets for ",
                   units, " units");
      std::map<int, std::string> contents;
      for (int u = units - 1; u >= 0; --u) {
        contents[bucket[u]] += text(" ", u, std::string(bytes[u], '='));
      }
      for (const auto& [number, line] : contents) cases.draw("bucket ", number, ":", line);
      int number = 0, filled = 0;  // the bucket that is being filled
      for (int u = units - 1; u >= 0; --u) {
        const bool must_begin = u == 0 || filled >= least;
        if (must_begin) ++number, filled = 0;
        cases.expect(bucket[u] == number, "unit ", u, " belongs to bucket ", number,
                     u == 0        ? ", where it is alone"
                     : must_begin  ? ": the bucket before is full"
                     : filled == 0 ? ", the first one"
                                   : text(", which has only ", filled, " bytes before it"));
        filled += bytes[u];
      }
    }
  }
}

}  // namespace ladder::puzzles
