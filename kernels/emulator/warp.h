// The operations that the 32 threads (lanes) of a warp do together: they exchange values, vote,
// wait.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>

namespace ladder::emulator {

enum class WarpOperation {
  syncwarp,
  shfl,
  shfl_up,
  shfl_down,
  shfl_xor,
  any,
  all,
  ballot,
  ldmatrix,
  ldmatrix_trans,
  mma_bf16,
  mma_fp16
};

// Returns whether lanes give and get more than bits: what WarpCall::registers points at.
constexpr bool uses_registers(WarpOperation operation) {
  return operation >= WarpOperation::ldmatrix;
}

// A lane's call of a warp operation. All lanes of `mask` must make it, at the same place of the
// source.
struct WarpCall {
  WarpOperation operation{};
  unsigned mask = 0;
  std::uint64_t bits = 0;  // the lane's value, its vote, or for ldmatrix the address of its row
  int width = 32;          // shuffles stay within groups of this many lanes, a power of two
  int argument = 0;        // for shuffles: the source lane, the distance, or the mask to XOR with
  std::source_location where;
  // ldmatrix writes a Fragment here; mma reads and writes MmaRegisters (tensor_core.h).
  void* registers = nullptr;
};

// Waits until all lanes of the mask have made the call. Returns the bits of the source lane, or the
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

// Returns the value of lane `source`.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl, mask, value, source, width, where);
}

// Returns the value of the lane whose number is smaller by `distance`, or this lane's value if
// there is none.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_up, mask, value, static_cast<int>(distance), width, where);
}

// Returns the value of the lane whose number is larger by `distance`, or this lane's value if there
// is none.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_down, mask, value, static_cast<int>(distance), width, where);
}

// Returns the value of the lane whose number is this lane's number XOR `lane_mask`.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location where = std::source_location::current()) {
  using namespace ladder::emulator;
  return shuffle(WarpOperation::shfl_xor, mask, value, lane_mask, width, where);
}

// These return whether the predicate is nonzero in any lane of the mask, whether it is in all of
// them, and in which lanes it is.
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
