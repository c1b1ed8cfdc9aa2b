// 18.2: lets every rank compute, and notes which numbers it uses.
#pragma once

#include <tuple>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// Draws who holds each number of a matrix: a rank's digit, or # for several ranks.
inline std::string holders_drawn(const Table& count, const Table& last) {
  std::string lines;
  for (size_t row = 0; row < count.size(); ++row) {
    for (size_t column = 0; column < count[row].size(); ++column) {
      lines += count[row][column] > 1 ? '#' : static_cast<char>('0' + last[row][column]);
    }
    lines += "\n";
  }
  return lines;
}

inline void check_18_2(Cases& cases,
                       int (*copied)(int in, int out, int r, int ranks, bool split_outputs)) {
  for (const auto& [in, out, r, ranks] : {std::tuple{4, 6, 1, 2},
                                          {2, 4, 1, 2},
                                          {1, 1, 1, 1},
                                          {2, 2, 1, 1},
                                          {3, 6, 2, 3},
                                          {4, 4, 2, 2}}) {
    for (const bool split_outputs : {true, false}) {
      if ((split_outputs ? out : in) % ranks != 0) continue;
      cases.begin(text("in = ", in, ", out = ", out, ", r = ", r, ", ranks = ", ranks, ", split ",
                       split_outputs ? "outputs" : "inputs"));
      const auto zeros = [](int rows, int columns) {
        return table_of(rows, columns, [](int, int) { return 0; });
      };
      Table count_a = zeros(r, in), last_a = zeros(r, in), count_b = zeros(out, r),
            last_b = zeros(out, r);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int i = 0; i < in; ++i) {
          const bool has_input = split_outputs || i / (in / ranks) == rank;
          for (int k = 0; has_input && k < r; ++k) ++count_a[k][i], last_a[k][i] = rank;
        }
        for (int o = 0; o < out; ++o) {
          const bool has_output = !split_outputs || o / (out / ranks) == rank;
          for (int k = 0; has_output && k < r; ++k) ++count_b[o][k], last_b[o][k] = rank;
        }
      }
      int expected = 0;
      for (const Table& counts : {count_a, count_b}) {
        for (const auto& row : counts) {
          for (const int count : row) expected += count > 1;
        }
      }
      cases.draw("A, the rank that holds a number (# = all of them):\n",
                 holders_drawn(count_a, last_a), "B:\n", holders_drawn(count_b, last_b));
      const int got = copied(in, out, r, ranks, split_outputs);
      cases.expect(got == expected, "you return ", got, ", and there are ", expected, " #");
    }
  }
}

}  // namespace ladder::puzzles
