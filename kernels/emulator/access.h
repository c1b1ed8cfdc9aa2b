// Those who watch kernels run: the checker, a profiler. They are told of every access to memory
// that a kernel makes, and of everything that orders its threads.
//
// Accesses are seen only where .cu files are compiled with hooks: with --config=emulator-check, and
// in kernels:cuda_observed. There the compiler puts a call before every load and store of a .cu
// file, as it does for the thread sanitizer (checker/hooks.cc). Elsewhere observers hear of the
// rest: launches, thread blocks, barriers, atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "kernels/emulator/vector_types.h"
#include "kernels/emulator/warp.h"

namespace ladder::emulator {

struct KernelCall;

enum class AccessKind : std::uint8_t { read, write, atomic };

// An access by the running thread, just before it happens.
struct Access {
  std::uintptr_t address;
  size_t bytes;
  AccessKind kind;
  const void* return_address;  // in the kernel: the instruction after the call of the hook
  size_t thread;               // its index in the thread block, x first
};

// What to do in an observer's functions is up to it: all do nothing by default. While a kernel runs
// they are called in its OS thread, one at a time.
class Observer {
 public:
  virtual ~Observer() = default;

  // Device memory, in any OS thread. Allocated memory holds undefined values. `written` is for what
  // copies from the host, memset, cuBLAS and NCCL write, not kernels; `copied` is for copies within
  // the device.
  virtual void allocated(const void* /*begin*/, size_t /*bytes*/) {}
  virtual void released(const void* /*begin*/, size_t /*bytes*/) {}
  virtual void written(const void* /*begin*/, size_t /*bytes*/) {}
  virtual void copied(const void* /*to*/, const void* /*from*/, size_t /*bytes*/) {}

  // The same for what copies, cuBLAS and NCCL read of device memory. They may throw an Error, as
  // written() and copied() may.
  virtual void read(const void* /*begin*/, size_t /*bytes*/) {}
  // The running work of a stream (work_order.h) is no kernel but `what`: "a copy". The
  // characters live as long as the process.
  virtual void work_is(std::string_view /*what*/) {}

  // Pinned memory of the host, in any OS thread. The stream has been given a copy which reads the
  // memory, or writes it; it may have run already.
  virtual void host_copy_given(const void* /*begin*/, size_t /*bytes*/, bool /*writes*/,
                               std::uint32_t /*work*/) {}
  // Such copies run between these two calls.
  virtual void host_copy_begins() {}
  virtual void host_copy_ends() {}
  virtual void host_released(const void* /*begin*/, size_t /*bytes*/) {}
  // The host has waited for work: see host_has_waited_for().
  virtual void host_waited() {}

  // `call` lives until launch_ends(), which is also called for a launch that fails.
  virtual void launch_begins(const KernelCall& /*call*/) {}
  virtual void launch_ends() {}
  virtual void block_begins(const uint3& /*block*/) {}
  // All threads of the thread block have returned. It is not called if the block has failed.
  virtual void block_ends() {}
  // While launches are sampled (launch.h), those thread blocks of the launch that are its sample
  // have run. Returns how many of its first thread blocks shall run for this observer, in order.
  virtual size_t sample_ends() { return 0; }

  // Must not throw: the compiler takes its caller for a plain load or store. stop_thread() below is
  // how an observer ends the launch.
  virtual void access(const Access& /*access*/) {}
  // Copies by cp.async. access() has heard of the read and the write before a copy begins. Until it
  // ends its destination is undefined.
  virtual void copy_begins(const void* /*to*/, size_t /*bytes*/) {}
  virtual void copy_ends(const Access& /*write*/) {}
  // The running thread orders its writes for others, on the device or in its thread block only.
  virtual void fence(bool /*device*/, size_t /*thread*/) {}
  // All threads of the thread block have come to the barrier, and none has gone on.
  virtual void block_barrier() {}
  // The lanes of `mask` have come to the operation, and none has gone on. Their warp begins with
  // thread `first`.
  virtual void warp_operation(WarpOperation /*operation*/, size_t /*first*/, unsigned /*mask*/) {}
  // The running thread computes std::fma. Programs that link profiler/functions.cc tell it.
  virtual void fused_multiply_add() {}

  // cuBLAS computes a product, in any OS thread. It may use so many multiprocessors; 0: all.
  virtual void product(int /*multiprocessors*/) {}
};

// From now on the observer is told. It must live until it is detached. REQUIRES: no kernel runs.
void attach(Observer& observer);
void detach(Observer& observer);

// Ends the running launch with an Error that says why, as a mistake of the running thread. The
// thread does not go on, so nothing on its stack is destroyed. Call it in Observer::access, or
// where the compiler calls a hook of checker/hooks.cc.
[[noreturn]] void stop_thread(const std::string& why);
// Ends the running launch with an Error that says why, as a mistake of the thread with this index.
// Call it in Observer::block_barrier or block_ends. The first mistake counts.
void note_mistake(size_t thread, const std::string& why);

// Whether a kernel's own code runs in this OS thread and has observers.
inline constinit thread_local bool is_observed = false;

// Tells the observers. REQUIRES: is_observed.
void report_access(const void* address, size_t bytes, AccessKind kind, const void* return_address);
void report_fence(bool device);

}  // namespace ladder::emulator
