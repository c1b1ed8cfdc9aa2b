// Numbers that follow each other, for lists such as "0, 2 to 4".
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace ladder {

// Returns the first and the last of each run of consecutive numbers.
inline std::vector<std::pair<size_t, size_t>> consecutive(const std::set<size_t>& numbers) {
  std::vector<std::pair<size_t, size_t>> runs;
  for (size_t number : numbers) {
    if (runs.empty() || runs.back().second + 1 != number) runs.emplace_back(number, number);
    runs.back().second = number;
  }
  return runs;
}

}  // namespace ladder
