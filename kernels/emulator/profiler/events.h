// What both the emulator and a reader of machine code can count, so that one can be laid beside the
// other.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace ladder::emulator {

// Of a warp. An access has the bytes of one of its threads, however many of them take part.
enum class Event {
  mma,           // instructions
  global_read,   // bytes, copies by cp.async included
  global_write,  // bytes
  shared_read,   // bytes, those of ldmatrix included
  shared_write,  // bytes, copies by cp.async included
  shuffle,       // instructions
  vote,          // instructions
  barrier,       // of the thread block
  exponential    // exp and log, those of all threads divided by 32
};
inline constexpr std::array<std::string_view, 9> kEventNames = {
    "mma",     "global-read", "global-write", "shared-read", "shared-write",
    "shuffle", "vote",        "barrier",      "exponential"};
using Events = std::array<double, kEventNames.size()>;

inline double& of(Events& events, Event event) { return events[static_cast<std::size_t>(event)]; }

}  // namespace ladder::emulator
