// 09.1: numbers the ranks of the grid one after the other.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_09_1(Cases& cases,
                       std::vector<int> (*data_group)(int rank, int stages, int data, int tensor)) {
  const Table grids = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 2, 2}, {2, 2, 1},
                       {2, 1, 2}, {2, 2, 2}, {1, 3, 2}, {3, 2, 2}, {2, 3, 2}, {2, 2, 3}};
  for (const std::vector<int>& sizes : grids) {
    Table groups(sizes[0] * sizes[2]);  // by stage and tensor number
    std::vector<int> group_of;
    for (int stage = 0; stage < sizes[0]; ++stage) {
      for (int data = 0; data < sizes[1]; ++data) {
        for (int tensor = 0; tensor < sizes[2]; ++tensor) {
          group_of.push_back(stage * sizes[2] + tensor);
          groups[group_of.back()].push_back(static_cast<int>(group_of.size()) - 1);
        }
      }
    }
    for (int rank = 0; rank < static_cast<int>(group_of.size()); ++rank) {
      cases.begin(text("rank = ", rank, ", stages = ", sizes[0], ", data = ", sizes[1],
                       ", tensor = ", sizes[2]));
      const std::vector<int> got = data_group(rank, sizes[0], sizes[1], sizes[2]);
      for (int r = 0; r < static_cast<int>(group_of.size()); r += sizes[2]) {
        std::string line;  // a line for each data number, ranks of a tensor group side by side
        for (int t = r; t < r + sizes[2]; ++t) {
          const bool is_mine = std::count(got.begin(), got.end(), t) > 0;
          line += text(is_mine ? " [" : "  ", t < 10 ? " " : "", t, is_mine ? "]" : " ");
        }
        cases.draw("stage ", r / sizes[2] / sizes[1], " data ", r / sizes[2] % sizes[1], line);
      }
      cases.expect(got == groups[group_of[rank]], "you return {", listed(got), "}, and it is {",
                   listed(groups[group_of[rank]]), "}");
    }
  }
}

}  // namespace ladder::puzzles
