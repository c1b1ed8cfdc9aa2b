// How to wait for other processes without a lock that they could wake us by.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "kernels/runtime/threads.h"

namespace ladder {

// Waits longer and longer: most peers arrive within microseconds, a rank that shares the core needs
// it, and one that computes for milliseconds must not have a neighbour spinning beside it. Few
// yields: where other programs want the core each may cost a whole slice of time, from which a
// sleeper is woken.
class Patience {
 public:
  // For one of `ranks` ranks of this machine. Where they are more than its cores the one that is
  // waited for may need this very core: no spinning.
  explicit Patience(size_t ranks) : spins_(ranks > num_cores() ? 0 : 2000) {}

  void wait() {
    ++rounds_;
    if (rounds_ <= spins_) {
      _mm_pause();
    } else if (!is_long()) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  // Tens of microseconds or more have passed.
  bool is_long() const { return rounds_ > spins_ + kYields; }

 private:
  static constexpr int kYields = 100;
  static size_t num_cores() {
    static const int cores = num_available_cores();
    return static_cast<size_t>(cores);
  }

  int spins_;
  int rounds_ = 0;
};

}  // namespace ladder
