// The state of one CUDA thread, and how to tell a reader about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/emulator/device.h"
#include "kernels/emulator/fiber.h"
#include "kernels/emulator/warp.h"

namespace ladder::emulator {

inline constexpr size_t kWarpSize = 32;

enum class ThreadState : std::uint8_t {
  ready,     // running, or its turn will come
  at_block,  // in __syncthreads
  at_warp,   // in a warp operation
  returned,  // from the kernel
};

struct Thread {
  uint3 index{};
  ThreadState state{};
  WarpCall call;             // at_warp: what it waits for; at_block: only call.where
  std::uint64_t result = 0;  // of the warp operation
  Fiber* fiber = nullptr;    // that it runs on, while it is left
  Thread* next = nullptr;    // in the queue of those that are ready
};

// "(1, 0, 0)".
std::string text_of(uint3 index);
// "gelu.cu:12".
std::string text_of(const std::source_location& where);
// The name of the function: "__shfl_sync".
const char* name_of(WarpOperation operation);

bool same_place(const std::source_location& a, const std::source_location& b);

// Of threads that wait for each other in vain: who waits where for whom, who has returned.
std::string describe_standstill(std::span<const Thread> threads);

}  // namespace ladder::emulator
