// What is typical of measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ladder {

// The value in the middle; of an even number of values the larger of the two. REQUIRES: any.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace ladder
