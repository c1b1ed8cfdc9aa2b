// 10.1: of the two bf16 numbers around x, which one is nearer?
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tools/course/puzzles/puzzle.h"

namespace ladder::puzzles {

// "0 10000000 1001001 0000111111010000": sign, exponent, and the fraction in two halves.
inline std::string bits_of_float(float x) {
  std::string bits;
  for (int i = 31; i >= 0; --i) {
    bits += std::bit_cast<uint32_t>(x) >> i & 1 ? '1' : '0';
    if (i == 31 || i == 23 || i == 16) bits += ' ';
  }
  return bits;
}

inline void check_10_1(Cases& cases, float (*to_bf16)(float x)) {
  std::vector<float> all = {0,           1,           -2,          1 + 0x1p-7f,   1.001f,
                            1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x5p-8f, -1 - 0x3p-8f,  1.999f,
                            0.1f,        3.14159f,    65504,       0x1.ffp127f,   0x1p-149f,
                            1e-40f,      -3e-39f,     0x1.fffp9f,  0x1.fefffep5f, 0x1.ff0002p5f};
  Draws draw;
  for (int i = 0; i < 200; ++i) {
    all.push_back(std::ldexp(static_cast<float>(draw(-(1 << 24), 1 << 24)), draw(-40, 10)));
  }
  all.push_back(2.71828f);
  for (const float x : all) {
    cases.begin(text("x = ", x));
    const float got = to_bf16(x);
    cases.draw("x         ", bits_of_float(x), "  ", x, "\nreturned  ", bits_of_float(got), "  ",
               got);
    // One is x without its lower bits, the other one the next one away from zero. As doubles both
    // are exact; 2^128 stands for infinity.
    const uint32_t low = std::bit_cast<uint32_t>(x) & 0xFFFF0000u, high = low + 0x10000u;
    const auto value = [](uint32_t bits) {
      const float number = std::bit_cast<float>(bits);
      return std::isinf(number) ? std::copysign(0x1p128, number) : static_cast<double>(number);
    };
    const double to_low = std::abs(x - value(low)), to_high = std::abs(value(high) - x);
    const bool takes_low = to_low < to_high || (to_low == to_high && (low & 0x10000u) == 0);
    const float expected = std::bit_cast<float>(takes_low ? low : high);
    if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected)) continue;
    cases.draw("and not   ", bits_of_float(expected), "  ", expected);
    cases.expect(false, to_low == to_high ? "that is as near, and its bits are an even number"
                                          : "that is nearer");
  }
}

}  // namespace ladder::puzzles
