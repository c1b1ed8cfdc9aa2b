// How ranks of one machine wait for each other without taking the cores that the others need.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "common/comm/delay.h"
#include "kernels/runtime/threads.h"

namespace ladder {

// A bell lies in memory that processes share, and that memory must be zero at first. Some processes
// sleep at the bell until another one rings it. No ring is missed as long as the ringing process
// changes what `done` looks at before it rings: every access is sequentially consistent.
class Bell {
 public:
  // Wakes all processes that sleep here. It makes a system call only if there are any.
  void ring() {
    maybe_delay("ring: before looking for sleepers");
    if (sleepers_ == 0) return;
    maybe_delay("ring: sleepers seen");
    ++rings_;
    syscall(SYS_futex, &rings_, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }

  // Sleeps until the bell rings, for at most `limit` seconds. It does not sleep at all if done() is
  // true already. Returns done().
  template <class Done>
  bool sleep_unless(Done done, double limit) {
    const auto seconds = static_cast<time_t>(limit);
    const timespec time = {seconds,
                           static_cast<long>(1e9 * (limit - static_cast<double>(seconds)))};
    ++sleepers_;
    maybe_delay("sleep: counted as sleeper");
    const uint32_t seen = rings_;
    maybe_delay("sleep: rings read");
    const bool sleeps = !done();
    maybe_delay("sleep: asked whether done");
    if (sleeps) syscall(SYS_futex, &rings_, FUTEX_WAIT, seen, &time, nullptr, 0);
    --sleepers_;
    return done();
  }

 private:
  std::atomic<uint32_t> rings_, sleepers_;
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
                "the system call reads it as a plain uint32_t");
};

// Tells the core that this is a loop which waits, so that it leaves more to the others.
inline void pause_core() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Waits for a few microseconds without sleeping, and returns done(). Waking a sleeping rank takes
// tens of microseconds, and most peers arrive sooner, so a rank waits here before it sleeps.
// `ranks` is the number of ranks on this machine. If there are more of them than cores, the rank
// that is waited for may need this very core, so there is no spinning. There are only a few yields,
// which let each rank run once: if other programs want the core, each yield may cost a time slice.
template <class Done>
bool wait_awake(size_t ranks, Done done) {
  static const size_t cores = static_cast<size_t>(num_available_cores());
  constexpr int kSpins = 2000, kYields = 10;
  for (int i = 0; i < kSpins && ranks <= cores; ++i) {
    if (done()) return true;
    pause_core();
  }
  for (int i = 0; i < kYields; ++i) {
    if (done()) return true;
    sched_yield();
  }
  return done();
}

}  // namespace ladder
