// Counter-based random numbers. Every number is a function of a key and a counter, so any rank can
// make any element of any tensor, in any order, and all ranks agree.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ladder {

// Philox 4x32 with ten rounds. It makes 128 random bits from a 64-bit key and a 128-bit counter.
// [Salmon11, "Parallel random numbers: as easy as 1, 2, 3"]
constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low,
                                         uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// Returns 64 random bits: the first two of philox's four words.
constexpr uint64_t random_word(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const std::array<uint32_t, 4> words = philox(key, counter_low, counter_high);
  return words[0] | uint64_t{words[1]} << 32;
}

// Turns 64 random bits into a number in [0, bound). All numbers are equally likely to within
// bound / 2^64. REQUIRES: bound > 0.
constexpr uint64_t random_below(uint64_t bound, uint64_t word) {
  __extension__ using Uint128 = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Uint128>(word) * bound >> 64);
}

// Returns the key of the random numbers that are called `name`, for this seed. The name is hashed
// by FNV-1a and mixed with the seed by philox.
constexpr uint64_t random_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return random_word(seed, hash, 0);
}

// Returns an integer that is approximately normally distributed: the sum of eight random 16-bit
// numbers, minus its mean. It is symmetric about 0, |value| <= 262,140, and its standard deviation
// is kNormalDeviation.
constexpr int32_t random_normal_integer(uint64_t key, uint64_t index) {
  int32_t sum = 0;
  for (uint32_t word : philox(key, index, 0)) {
    sum += static_cast<int32_t>(word & 0xFFFF) + static_cast<int32_t>(word >> 16);
  }
  return sum - 4 * 65535;
}

// The standard deviation of the sum of eight independent uniform integers in [0, 65535]:
// sqrt(8 (2^32 - 1) / 12).
inline constexpr double kNormalDeviation = 53509.91992145008;

}  // namespace ladder
