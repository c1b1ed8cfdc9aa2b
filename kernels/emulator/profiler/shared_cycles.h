// The cycles that shared memory takes for one instruction of a warp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ladder::emulator {

struct SharedAccess {
  std::uint32_t lane;
  std::uintptr_t address;
  std::uint32_t bytes;
};

struct SharedCycles {
  std::size_t taken;
  std::size_t least;  // if no two lanes wanted different words of one bank
};

// Word w of shared memory, of 4 bytes, is in bank w % 32. In a cycle each bank gives one word, to
// all lanes that want it. Lanes with up to 4 bytes are served together; with 8 bytes, each half of
// the warp by itself; with 16 bytes, each quarter: a group never wants more than 32 words. A group
// takes as many cycles as its busiest bank has different words to give. REQUIRES: all accesses have
// the same number of bytes, and follow each other by lane.
SharedCycles shared_cycles(std::span<const SharedAccess> accesses);

}  // namespace ladder::emulator
