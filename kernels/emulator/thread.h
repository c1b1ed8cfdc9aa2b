// The state of one CUDA thread, and how to tell a reader about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/emulator/async_copy.h"
#include "kernels/emulator/device.h"
#include "kernels/emulator/fiber.h"
#include "kernels/emulator/warp.h"

namespace ladder::emulator {

inline constexpr size_t kWarpSize = 32;

enum class ThreadState : std::uint8_t {
  ready,     // it is running, or waits for its turn
  at_block,  // it waits in __syncthreads
  at_warp,   // it waits in a warp operation
  returned,  // it has returned from the kernel
};

struct Thread {
  uint3 index{};
  ThreadState state{};
  WarpCall call;             // the call in which it waits; in __syncthreads only call.where
  std::uint64_t result = 0;  // the result of the warp operation
  AsyncCopies copies;        // those that have not ended
  Fiber* fiber = nullptr;    // the fiber that it runs on, while it waits
  Thread* next = nullptr;    // the next thread in the queue of ready ones
};

// Writes an index as in "(1, 0, 0)".
std::string text_of(uint3 index);
// Returns the path of a file from the root of the tree, where the compiler has put "./" or its
// sandbox before it.
std::string_view path_in_tree(std::string_view path);
// Writes a place in the source as in "kernels/cuda/gelu.cu:12".
std::string text_of(const std::source_location& where);
// Returns the name of the operation's function, such as "__shfl_sync".
const char* name_of(WarpOperation operation);

bool same_place(const std::source_location& a, const std::source_location& b);

// Describes threads that wait for each other in vain: where each waits and for which threads, and
// which threads have returned.
std::string describe_standstill(std::span<const Thread> threads);

}  // namespace ladder::emulator
