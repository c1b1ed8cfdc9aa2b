#include "kernels/cpu/plain_rotary.h"

#include <cmath>

namespace ladder::cpu {

std::vector<double> plain_rotary(std::span<const double> heads, std::span<const double> positions,
                                 std::span<const double> frequencies) {
  const size_t half = frequencies.size(), row_size = heads.size() / positions.size();
  std::vector<double> turned(heads.size());
  for (size_t head = 0; head < heads.size(); head += 2 * half) {
    const double position = positions[head / row_size];
    for (size_t i = 0; i < half; ++i) {
      const double x1 = heads[head + i], x2 = heads[head + half + i];
      const double angle = position * frequencies[i];
      turned[head + i] = x1 * std::cos(angle) - x2 * std::sin(angle);
      turned[head + half + i] = x2 * std::cos(angle) + x1 * std::sin(angle);
    }
  }
  return turned;
}

std::vector<double> plain_frequencies(double theta, size_t head_size) {
  std::vector<double> frequencies;
  for (size_t i = 0; i < head_size / 2; ++i) {
    frequencies.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size)));
  }
  return frequencies;
}

}  // namespace ladder::cpu
