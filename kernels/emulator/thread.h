// One emulated CUDA thread, and how messages describe threads, source lines and standstills. One OS
// thread runs all threads of a thread block, each on a fiber (execution.h), so nothing here locks.
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
  at_block,  // it waits in __syncthreads for all threads of the thread block
  at_warp,   // it waits in a warp operation for the other lanes of the mask
  returned,  // it has returned from the kernel
};

struct Thread {
  uint3 index{};  // threadIdx
  ThreadState state{};
  // What it waits for. at_warp: the call, with mask and arguments. at_block: only call.where, the
  // source line of its __syncthreads.
  WarpCall call;
  std::uint64_t result = 0;  // of the warp operation, set before the thread goes on
  AsyncCopies copies;        // its copies by cp.async that have not ended
  Fiber* fiber = nullptr;    // where it stopped, while it waits
  Thread* next = nullptr;    // the next thread in the queue of ready ones
};

// Returns the index as in "(1, 0, 0)".
std::string text_of(uint3 index);
// Returns the path of a file from the root of the tree: without "./" or "/proc/self/cwd/", which
// Bazel's compiler calls put before it. The result is part of `path`.
std::string_view path_in_tree(std::string_view path);
// Returns a line of the source as in "kernels/cuda/gelu.cu:12".
std::string text_of(const std::source_location& where);
// Returns what a warp operation is called in CUDA, such as "__shfl_sync".
const char* name_of(WarpOperation operation);

// Returns whether both are the same file, line and column: CUDA wants the lanes of a warp to make a
// call together.
bool same_location(const std::source_location& a, const std::source_location& b);

// Returns the message for a launch in which no thread can go on. `threads` are those of the thread
// block, by index. If one of them waits in __syncthreads the message is about all, else about the
// first warp with a thread that waits. It groups the threads by where they are, at most 8 groups:
// "threads wait for others that will never come: 31 threads, the first (0, 0, 0), in __syncthreads
// at a.cu:12; 1 thread, (31, 0, 0), returned".
std::string describe_standstill(std::span<const Thread> threads);

}  // namespace ladder::emulator
