// 04.1: is any buffer filled again too soon, and are there too many?
#pragma once

#include <map>
#include <set>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

inline void check_04_1(Cases& cases,
                       std::vector<int> (*buffer_of)(const std::vector<bool>& has_own, int turns)) {
  for (int units = 1; units <= 6; ++units) {
    for (int mask = 0; mask < 1 << units; ++mask) {
      for (int turns = 1; turns <= 3; ++turns) {
        std::vector<bool> has_own(units);
        for (int u = 0; u < units; ++u) has_own[u] = (mask >> u & 1) == (u % 3 == 0);
        cases.begin(text("has_own = {", listed(has_own), "}, turns = ", turns));
        const std::vector<int> buffer = buffer_of(has_own, turns);
        cases.expect(buffer.size() == size_t(units), "you return ", buffer.size(), " buffers for ",
                     units, " units");
        std::map<int, std::string> uses;
        for (int u = 0; u < units; ++u) {
          std::string& line = uses[buffer[u]];
          line.resize(4 * u, ' ');
          line += text(has_own[u] ? "[" : " ", u, has_own[u] ? "]" : " ");
        }
        for (const auto& [number, line] : uses) cases.draw("buffer ", number, ": ", line);
        std::vector<int> sharing;  // units
        std::set<int> shared;      // buffers
        for (int u = 0; u < units; ++u) {
          cases.expect(buffer[u] >= 0, "unit ", u, " has no buffer ", buffer[u]);
          if (has_own[u]) {
            cases.expect(std::count(buffer.begin(), buffer.end(), buffer[u]) == 1, "unit ", u,
                         " must not share its buffer");
            continue;
          }
          for (size_t back = 1; back < size_t(turns) && back <= sharing.size(); ++back) {
            const int before = sharing[sharing.size() - back];
            cases.expect(buffer[before] != buffer[u], "unit ", u, " would overwrite unit ", before,
                         ", which is still being sent");
          }
          sharing.push_back(u);
          shared.insert(buffer[u]);
        }
        cases.expect(shared.size() <= size_t(turns), "units share ", shared.size(),
                     " buffers, and may share ", turns);
      }
    }
  }
}

}  // namespace ladder::puzzles
