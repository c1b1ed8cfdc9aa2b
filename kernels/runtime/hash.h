// A hash of memory, by which ranks compare what they hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ladder {

// Returns the hash of `bytes` after what `hash` already contains. It takes eight bytes at a time,
// as fast as memory gives them, and misses a difference with a probability of 2^-64. Two calls for
// two halves give another result than one call for all.
inline uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t hash) {
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), count);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
    bytes = bytes.subspan(count);
  }
  return hash;
}

}  // namespace ladder
