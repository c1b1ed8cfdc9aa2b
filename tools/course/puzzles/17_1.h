// 17.1: asks of every element who has it and who wants it.
#pragma once

#include <array>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_17_1(Cases& cases,
                       std::array<int, 3> (*overlap)(int stored_first, int stored_count,
                                                     int wanted_first, int wanted_count)) {
  constexpr int kTensor = 6;
  for (int total = 2; total <= 2 * kTensor; ++total) {  // elements stored and wanted
    for (int stored = 1; stored < total; ++stored) {
      const int wanted = total - stored;
      for (int from = 0; from + stored <= kTensor; ++from) {
        for (int at = 0; at + wanted <= kTensor; ++at) {
          cases.begin(text("stored ", from, " to ", from + stored - 1, ", wanted ", at, " to ",
                           at + wanted - 1));
          std::array<int, 3> expected = {0, 0, 0};
          for (int e = kTensor - 1; e >= 0; --e) {
            const bool is_stored = from <= e && e < from + stored;
            const bool is_wanted = at <= e && e < at + wanted;
            if (is_stored && is_wanted) expected = {e - from, e - at, expected[2] + 1};
          }
          cases.draw("tensor  ", std::string(kTensor, '.'), "\nstored  ", std::string(from, ' '),
                     std::string(stored, 's'), "\nwanted  ", std::string(at, ' '),
                     std::string(wanted, 'w'));
          const std::array<int, 3> got = overlap(from, stored, at, wanted);
          cases.expect(got == expected, "you return {", listed(got), "}, and it is {",
                       listed(expected), "}");
        }
      }
    }
  }
}

}  // namespace ladder::puzzles
