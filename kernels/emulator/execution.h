// A running kernel. Its thread blocks run one after the other, and the threads of a thread block
// take turns.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/emulator/order.h"
#include "kernels/emulator/thread.h"

namespace ladder::emulator {

inline constexpr size_t kMaxThreads = 1024;  // the most threads in a thread block

// Returns the name of the kernel that the calling OS thread runs, or an empty text outside of
// kernels.
std::string_view running_kernel_name();

// The index in its thread block of the thread that runs, if a kernel runs.
inline constinit size_t running_thread = 0;

// Threads start one after the other (order.h). A thread starts when those before it have returned
// or are waiting, and runs until it waits itself. Threads that never wait all run on one fiber, one
// after the other. A thread that waits keeps its fiber, and others run on another one.
class Execution {
 public:
  // This is kept from kernel to kernel, since only one kernel runs at a time.
  struct Pool {
    std::array<Thread, kMaxThreads> threads;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;  // the fibers on which no thread waits
  };

  explicit Execution(const KernelCall& call);

  // Runs every thread block. Throws an Error for the first mistake that it finds.
  void run();

  // The running thread calls these: see device.h, warp.h and async_copy.h.
  void block_barrier(const std::source_location& where);
  std::uint64_t warp_operation(const WarpCall& call);
  [[noreturn]] void stop_thread(const std::string& why);
  AsyncCopies& copies() { return running_->copies; }
  void note_mistake(size_t thread, const std::string& why);

 private:
  static void work();
  void run_threads();
  void rest();
  void run_thread(Thread& thread);
  void run_blocks();
  void run_block();
  void abandon_block();
  static std::unique_ptr<Fiber> new_fiber(size_t index);

  void wait(Thread& self);
  void set_running(Thread& thread);
  void leave(Fiber& here);
  Fiber& next_fiber();
  void make_ready(Thread& thread);
  void go_on(Thread& thread);

  Thread& thread_of_lane(size_t lane) { return threads_[warp_begin() + lane]; }
  unsigned& waiting_lanes() { return waiting_lanes_[warp_begin() / kWarpSize]; }
  size_t warp_begin() const;
  size_t lane() const;
  void check_call(const WarpCall& call) const;
  bool is_complete(const WarpCall& call);
  void complete(const WarpCall& call);

  friend std::string_view running_kernel_name();
  const KernelCall& call_;
  size_t num_threads_;  // the threads of a thread block
  Pool& pool_;
  std::array<Thread, kMaxThreads>& threads_;
  Shuffle shuffle_;
  Order start_order_;  // of the threads of the running thread block
  size_t num_started_ = 0, num_returned_ = 0, num_at_block_ = 0;
  // For each warp, a mask of the lanes that wait in a warp operation.
  std::array<unsigned, kMaxThreads / kWarpSize> waiting_lanes_{};
  Thread* running_ = nullptr;
  Thread* first_ready_ = nullptr;
  Thread* last_ready_ = nullptr;

  Fiber main_;             // the fiber of the caller of run()
  Fiber* fiber_ = &main_;  // the running fiber

  std::string failure_;
  Fiber* stopped_ = nullptr;  // the fiber of a thread that will never go on
  bool abandoning_ = false;   // true while waiting threads must unwind their stacks
};

// Returns the kernel that the calling OS thread runs. Throws an Error that names the function if it
// runs none.
Execution& running_kernel(const char* function);

}  // namespace ladder::emulator
