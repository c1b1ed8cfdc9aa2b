// The median, for measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ladder {

// Returns the value in the middle. If the number of values is even, it is the larger one of the two
// in the middle. REQUIRES: at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace ladder
