// What a GPU's cache keeps from memory, while the thread blocks of a launch run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ladder::emulator {

inline constexpr size_t kSectorBytes = 32;

// What memory would do for some thread blocks.
struct MemoryTraffic {
  double asked = 0;  // sectors that thread blocks asked for, whether the cache had them or not
  double moved = 0;  // sectors that went from memory to the cache or back
};

// The accesses of a thread block in their order: 2 * the number of a sector, + 1 for a write.
using BlockTrace = std::vector<std::uint64_t>;

// Returns the traffic of thread blocks that share a cache of `sectors` sectors. `at_once` of them
// run at the same time, and take turns; when one ends, the next one begins. The cache is empty at
// first. It keeps what was used last, and writes a sector to memory when the sector has to go, or
// at the end. If there are fewer thread blocks than would run at once on a GPU, they have only
// their share of the cache.
MemoryTraffic traffic_with_cache(std::span<const BlockTrace> blocks, size_t at_once,
                                 size_t sectors);

}  // namespace ladder::emulator
