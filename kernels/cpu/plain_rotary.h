// Rotary positions as plain loops over double: the formula, and nothing else. Read it before
// kernels/rotary.h and kernels/cpu/rotary.cc, which compute the same from a table. Tests compare
// the kernels of every device with it.
#pragma once

#include <span>
#include <vector>

namespace ladder::cpu {

// Returns the heads, turned. Each row is a token's heads, one after the other, and has a position;
// a head has 2 * frequencies.size() elements. Elements i of its two halves are a point in a plane,
// which is turned by the angle position * frequencies[i]. [Su21]
std::vector<double> plain_rotary(std::span<const double> heads, std::span<const double> positions,
                                 std::span<const double> frequencies);

// Returns theta^(-2 i / head_size) for i < head_size / 2: the first points turn fast, by one radian
// from a token to the next, and the last ones slowly.
std::vector<double> plain_frequencies(double theta, size_t head_size);

}  // namespace ladder::cpu
