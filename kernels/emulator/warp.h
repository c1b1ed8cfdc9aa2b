// What the 32 threads (lanes) of a warp do together: exchange values, vote, wait.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>

namespace ladder::emulator {

enum class WarpOperation { syncwarp, shfl, shfl_up, shfl_down, shfl_xor, any, all, ballot };

// A lane's call of a warp operation. The lanes of `mask` must all make it, at the same place.
struct WarpCall {
  WarpOperation operation{};
  unsigned mask = 0;
  std::uint64_t bits = 0;  // what this lane gives: its value, or its vote
  int width = 32;          // shuffles stay within groups of this many lanes: a power of two
  int argument = 0;        // of a shuffle: source lane, distance, or mask of the lane's number
  std::source_location where;
};

// Returns when all lanes of the mask have made the call: the bits of the lane shuffled from, or the
// votes of all lanes, one bit each. A value from a lane outside of the mask is all ones (a NaN).
std::uint64_t warp_operation(const WarpCall& call);

template <class T>
concept Shuffled = std::integral<T> || std::floating_point<T>;

template <Shuffled T>
T shuffle(WarpOperation operation, unsigned mask, T value, int argument, int width,
          std::source_location where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_operation({operation, mask, bits, width, argument, where});
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned votes(WarpOperation operation, unsigned mask, bool vote,
                      std::source_location where) {
  return static_cast<unsigned>(warp_operation({operation, mask, vote, 32, 0, where}));
}

}  // namespace ladder::emulator

// The value of lane `source`.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl, mask, value, source, width, where);
}

// The value of the lane `distance` below; this lane's value where there is none.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_up, mask, value, static_cast<int>(distance), width, where);
}

// The value of the lane `distance` above; this lane's value where there is none.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_down, mask, value, static_cast<int>(distance), width, where);
}

// The value of the lane whose number is this one's XOR `lane_mask`.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_xor, mask, value, lane_mask, width, where);
}

// Is the predicate nonzero in any lane of the mask, in all of them; in which ones.
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return votes(WarpOperation::any, mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return votes(WarpOperation::all, mask, predicate != 0, where) == mask;
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return votes(WarpOperation::ballot, mask, predicate != 0, where);
}

// Returns when all lanes of the mask have called it.
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  warp_operation({WarpOperation::syncwarp, mask, 0, 32, 0, where});
}
