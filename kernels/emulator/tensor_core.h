// The instructions of kernels/cuda/tensor_core.h, which says what they do, for g++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

#include "kernels/emulator/access.h"
#include "kernels/emulator/warp.h"
#include "kernels/runtime/low_precision.h"

namespace ladder::emulator {

// The registers of a lane in mma: what WarpCall::registers points at.
struct MmaRegisters {
  float* sums;             // 4
  const std::uint32_t* a;  // 4 pairs of elements
  std::uint32_t b[2];
};

// The operation of mma with elements of T.
template <class T>
inline constexpr WarpOperation mma_of = [] { static_assert(sizeof(T) == 0, "bf16 or fp16"); }();
template <>
inline constexpr WarpOperation mma_of<bfloat16> = WarpOperation::mma_bf16;
template <>
inline constexpr WarpOperation mma_of<float16> = WarpOperation::mma_fp16;

inline constexpr unsigned kAllLanes = 0xffffffff;

// A GPU does not document in which order it adds the 16 products of a sum, nor how it rounds in
// between. Here they are added one by one, k ascending, with fp32's fused multiply-add.
template <class T>
void mma(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
         std::source_location where = std::source_location::current()) {
  MmaRegisters registers{sums, a, {b0, b1}};
  warp_operation({mma_of<T>, kAllLanes, 0, 32, 0, where, &registers});
}

// Tells observers that the running thread reads a row of 16 bytes.
void tell_row(const void* row);

inline void load_matrices(std::uint32_t (&fragment)[4], const void* row,
                          std::source_location where = std::source_location::current()) {
  if (is_observed) tell_row(row);
  warp_operation({WarpOperation::ldmatrix, kAllLanes, reinterpret_cast<std::uintptr_t>(row), 32, 0,
                  where, fragment});
}
inline void load_transposed(std::uint32_t (&fragment)[4], const void* row,
                            std::source_location where = std::source_location::current()) {
  if (is_observed) tell_row(row);
  warp_operation({WarpOperation::ldmatrix_trans, kAllLanes, reinterpret_cast<std::uintptr_t>(row),
                  32, 0, where, fragment});
}

// These are for the running thread alone: see async_copy.h.
void begin_copy(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(std::size_t in_flight);

// Does what all 32 lanes of a warp have called. REQUIRES: uses_registers(the calls' operation).
void complete_with_registers(std::span<const WarpCall* const, 32> lanes);

}  // namespace ladder::emulator
