// One running kernel: its blocks one after the other, the threads of a block taking turns.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/emulator/thread.h"

namespace ladder::emulator {

inline constexpr size_t kMaxThreads = 1024;  // of a block

// The kernel that the calling OS thread runs; "" outside of kernels.
std::string_view running_kernel_name();

// Threads are started in order of their index, each only when those before it have returned or
// wait, and goes on until it waits itself. Threads that never wait all run on one fiber, one after
// the other; while a thread waits, its fiber is taken, and others run on another one.
class Execution {
 public:
  // What is kept from kernel to kernel, as only one runs at a time.
  struct Pool {
    std::array<Thread, kMaxThreads> threads;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;  // those on which no thread waits
  };

  explicit Execution(const KernelCall& call);

  // Runs every block. Throws Error for the first thing that is wrong.
  void run();

  // Called by the running thread: see device.h and warp.h.
  void block_barrier(const std::source_location& where);
  std::uint64_t warp_operation(const WarpCall& call);

 private:
  static void work();
  void run_threads();
  void rest();
  void run_thread(Thread& thread);
  void run_block();
  void abandon_block();

  void wait(Thread& self);
  void leave(Fiber& here);
  Fiber& next_fiber();
  void make_ready(Thread& thread);

  Thread& thread_of_lane(size_t lane) { return threads_[warp_begin() + lane]; }
  unsigned& waiting_lanes() { return waiting_lanes_[warp_begin() / kWarpSize]; }
  size_t warp_begin() const;
  size_t lane() const;
  void check_call(const WarpCall& call) const;
  bool is_complete(const WarpCall& call);
  void complete(const WarpCall& call);

  friend std::string_view running_kernel_name();
  const KernelCall& call_;
  size_t num_threads_;  // of a block
  Pool& pool_;
  std::array<Thread, kMaxThreads>& threads_;
  size_t num_started_ = 0, num_returned_ = 0, num_at_block_ = 0;
  std::array<unsigned, kMaxThreads / kWarpSize> waiting_lanes_{};  // per warp: in warp operations
  Thread* running_ = nullptr;
  Thread* first_ready_ = nullptr;
  Thread* last_ready_ = nullptr;

  Fiber main_;             // the caller of run()
  Fiber* fiber_ = &main_;  // the running one

  std::string failure_;
  bool abandoning_ = false;  // waiting threads must unwind their stacks
};

}  // namespace ladder::emulator
