// 17.1: asks of every element who has it and who wants it.
#pragma once

#include <array>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_17_1(Cases& cases,
                       std::array<int, 3> (*overlap)(int stored_first, int stored_count,
                                                     int wanted_first, int wanted_count)) {
  const auto try_case = [&](int from, int stored, int at, int wanted) {
    cases.begin(
        text("stored ", from, " to ", from + stored - 1, ", wanted ", at, " to ", at + wanted - 1));
    std::array<int, 3> expected = {0, 0, 0};
    for (int e = 11; e >= 0; --e) {
      const bool is_stored = from <= e && e < from + stored, is_wanted = at <= e && e < at + wanted;
      if (is_stored && is_wanted) expected = {e - from, e - at, expected[2] + 1};
    }
    cases.draw("stored  ", std::string(from, ' '), std::string(stored, 's'), "\nwanted  ",
               std::string(at, ' '), std::string(wanted, 'w'));
    const std::array<int, 3> got = overlap(from, stored, at, wanted);
    cases.expect(got == expected, "you return {", listed(got), "}, and it is {", listed(expected),
                 "}");
    cases.draw("read    ", std::string(from + got[0], ' '), std::string(got[2], 'r'));
  };
  for (int total = 2; total <= 10; ++total) {  // elements stored and wanted
    for (int stored = 1; stored < total; ++stored) {
      for (int from = 0; from + stored <= 6; ++from) {
        for (int at = 0; at + total - stored <= 6; ++at) try_case(from, stored, at, total - stored);
      }
    }
  }
  try_case(3, 3, 4, 8);
}

}  // namespace ladder::puzzles
