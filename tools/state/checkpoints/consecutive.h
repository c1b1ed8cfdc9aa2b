// Numbers that follow each other, for lists such as "0, 2 to 4".
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace ladder {

// Returns the first and the last of each run of consecutive numbers.
inline std::vector<std::pair<size_t, size_t>> consecutive(const std::set<size_t>& numbers) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (size_t number : numbers) {
    if (ranges.empty() || ranges.back().second + 1 != number) ranges.emplace_back(number, number);
    ranges.back().second = number;
  }
  return ranges;
}

}  // namespace ladder
