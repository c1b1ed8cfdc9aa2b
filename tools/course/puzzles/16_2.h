// 16.2: writes the list down, group by group.
#pragma once

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_16_2(Cases& cases,
                       std::pair<int, int> (*ith_forward)(int i, int stages, int chunks)) {
  for (int stages = 1; stages <= 4; ++stages) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      std::vector<std::pair<int, int>> expected;
      for (int group = 0; group < 2; ++group) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
          for (int k = 0; k < stages; ++k) expected.push_back({group * stages + k, chunk});
        }
      }
      cases.begin(text("stages = ", stages, ", chunks = ", chunks));
      std::vector<std::pair<int, int>> got;
      std::vector<std::string> lines(chunks);  // of each chunk, in time
      for (int i = 0; i < static_cast<int>(expected.size()); ++i) {
        got.push_back(ith_forward(i, stages, chunks));
        const auto [micro_batch, chunk] = got.back();
        if (chunk < 0 || chunk >= chunks) continue;  // there is no line for it
        lines[chunk].resize(3 * i, ' ');
        lines[chunk] += text(micro_batch);
      }
      for (int chunk = 0; chunk < chunks; ++chunk) cases.draw("chunk ", chunk, " |", lines[chunk]);
      for (size_t i = 0; i < got.size(); ++i) {
        cases.expect(got[i] == expected[i], "forward ", i, " is that of micro-batch ",
                     expected[i].first, " in chunk ", expected[i].second, ", and you return {",
                     got[i].first, ", ", got[i].second, "}");
      }
    }
  }
}

}  // namespace ladder::puzzles
