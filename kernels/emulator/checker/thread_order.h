// Which accesses of a launch are ordered by what CUDA promises: __syncthreads orders all threads
// of a thread block, __syncwarp the lanes of its mask. Shuffles and votes exchange values, but
// order no memory. Thread blocks are ordered only by fences and atomics: say that thread A calls
// __threadfence and then does an atomic operation. If thread B later does one on the same address,
// B comes after all that A did before the fence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/emulator/checker/shadow.h"

namespace ladder::emulator {

// The thread blocks of a launch run one after the other. Time counts the barriers and fences of the
// running thread block.
class ThreadOrder {
 public:
  ThreadOrder();

  void launch_begins();
  void block_begins();
  void block_barrier();
  // The lanes of `mask` of the warp that begins with thread `first`.
  void warp_barrier(size_t first, unsigned mask);
  void device_fence(size_t thread);
  void atomic(size_t thread, std::uintptr_t address);

  // Returns the mark of an access that happens now.
  Mark mark(size_t thread, std::uint32_t site, bool atomic) const {
    return {block_, time_, thread, site, atomic};
  }
  std::uint32_t launch() const { return launch_; }
  bool in_launch(const Mark& mark) const { return mark.block() >= first_block_; }
  bool in_block(const Mark& mark) const { return mark.block() == block_; }
  // Returns the number of the mark's thread block among those of the launch, in the order in which
  // they ran. REQUIRES: in_launch(mark).
  size_t block_number(const Mark& mark) const { return mark.block() - first_block_; }

  // Returns whether the access, one of this launch, came before what `thread` does now.
  bool ordered(const Mark& mark, size_t thread) const {
    if (!in_block(mark)) return !acquired_.empty() && ordered_by_fence(mark, thread);
    return mark.thread() == thread || mark.time() <= all_threads_ || ordered_in_warp(mark, thread);
  }

 private:
  static constexpr size_t kThreads = 1024, kLanes = 32;
  using Times = std::array<std::uint32_t, kLanes>;

  // A thread's atomic operation after a fence.
  struct Release {
    std::uint32_t block;
    size_t thread;
    std::uint32_t own, all_threads;  // what came before the fence: its own, its thread block's
  };
  // A release that a thread of the running thread block has seen.
  struct Acquire {
    Release release;
    size_t thread;
    std::uint32_t time;
  };

  void pass();
  bool ordered_in_warp(const Mark& mark, size_t thread) const;
  bool ordered_by_fence(const Mark& mark, size_t thread) const;

  std::uint32_t launch_ = 0, first_block_ = 1, block_ = 0;
  std::uint32_t time_ = 1;
  std::uint32_t all_threads_ = 0;  // every thread comes after what was done until this time
  std::array<std::uint32_t, kThreads / kLanes> all_lanes_{};  // the same for the lanes of a warp
  std::vector<Times> known_;  // for each thread the same for each lane of its warp
  bool known_in_block_ = false;
  std::unordered_map<size_t, Release> fences_;  // by thread of the running thread block
  std::unordered_map<std::uintptr_t, std::vector<Release>> releases_;  // by address
  std::vector<Acquire> acquired_;
};

}  // namespace ladder::emulator
