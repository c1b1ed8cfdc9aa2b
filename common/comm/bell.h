// How ranks of one machine wait for each other without taking the cores that the others need.
#pragma once

#include <immintrin.h>
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

// In memory that processes share, zero at first: some sleep here until one rings. Nobody misses a
// ring: what `done` looks at is changed before it, and every access is sequentially consistent.
class Bell {
 public:
  // Wakes all that sleep; a system call only if there are any.
  void ring() {
    maybe_delay("ring: before looking for sleepers");
    if (sleepers_ == 0) return;
    maybe_delay("ring: sleepers seen");
    ++rings_;
    syscall(SYS_futex, &rings_, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }

  // Sleeps until a ring, but at most `limit` seconds, and not at all where done(). Returns done().
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
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel looks at it");
};

// What comes before the sleep, from which a rank is woken only after tens of microseconds: most
// peers arrive sooner. Where the `ranks` of this machine are more than its cores, the one that is
// waited for may need this very core: no spinning. Few yields, which let each of them run once:
// where other programs want the core, each may cost a whole slice of time. Returns done().
template <class Done>
bool wait_awake(size_t ranks, Done done) {
  static const size_t cores = static_cast<size_t>(num_available_cores());
  constexpr int kSpins = 2000, kYields = 10;
  for (int i = 0; i < kSpins && ranks <= cores; ++i) {
    if (done()) return true;
    _mm_pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (done()) return true;
    sched_yield();
  }
  return done();
}

}  // namespace ladder
