#include "kernels/rotary.h"

#include <cmath>
#include <numbers>

namespace ladder {
namespace {

double scaled(double frequency, const Llama3Scaling& s) {
  const double turns =
      static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns <= s.low_freq_factor) return frequency / s.factor;
  if (turns >= s.high_freq_factor) return frequency;
  const double high = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - high) * frequency / s.factor + high * frequency;
}

}  // namespace

std::vector<double> rotary_frequencies(const Rotary& rotary, size_t head_size) {
  check(head_size % 2 == 0, "rotary_frequencies: an odd head size");
  check(rotary.theta > 0, "rotary_frequencies: theta is not positive");
  if (const auto& s = rotary.scaling) {
    check(s->factor > 0 && s->low_freq_factor > 0 && s->high_freq_factor > s->low_freq_factor &&
              s->original_positions > 0,
          "rotary_frequencies: numbers of the scaling that cannot be");
  }
  std::vector<double> frequencies(head_size / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_size);
    frequencies[i] = 1 / std::pow(rotary.theta, exponent);
    if (rotary.scaling) frequencies[i] = scaled(frequencies[i], *rotary.scaling);
  }
  return frequencies;
}

void fill_rotary_table(TensorView table, const Rotary& rotary) {
  check(table.device() == DeviceType::cpu, "fill_rotary_table: a table on another device");
  check(table.shape().num_dims() == 2, "fill_rotary_table: a table of other than two dimensions");
  const size_t positions = table.shape()[0], half = table.shape()[1] / 2;
  const std::vector<double> frequencies = rotary_frequencies(rotary, table.shape()[1]);
  dispatch_accumulation(table.dtype(), [&](auto zero) {
    using A = decltype(zero);
    A* const elements = table.as<A>();
#pragma omp parallel for schedule(static)
    for (size_t p = 0; p < positions; ++p) {
      A* const cosines = elements + p * 2 * half;
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i];
        cosines[i] = static_cast<A>(std::cos(angle));
        cosines[half + i] = static_cast<A>(std::sin(angle));
      }
    }
  });
}

}  // namespace ladder
