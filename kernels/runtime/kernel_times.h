// How long each kernel takes: on a GPU measured by events around every launch, on the CPU from the
// call of its body to the return.
//
// LADDER_TIME_KERNELS=1 in a program's environment makes it print a table to standard error when it
// ends: for each kernel the time of all launches, how many there were, and the time of one. A
// product on the CPU has its shape in its name, M x N x K. The first launch of each kernel is left
// out, because CUDA may load the kernel in it. Two launches do not overlap on their stream; where
// several streams are busy, a kernel's time is what it took beside the others.
//
// On a GPU every time is a microsecond or two too long, and longer where the GPU waits for the host
// to launch the kernel. The host also needs some microseconds for the two events, so a step may
// take a few percent longer.
#pragma once

#include "kernels/runtime/cost.h"
#include "kernels/runtime/real_time.h"

namespace ladder {

// Begins to time kernels on a GPU if the environment asks for it and nobody has begun yet. Streams
// call it.
void time_kernels_if_asked();

// A body that runs on the CPU, from this object's begin to its end.
class TimedBody {
 public:
  // `kernel` and `cost` must live as long.
  TimedBody(const char* kernel, const Cost& cost) : kernel_(kernel), cost_(cost) {
    if (is_timed_) begin_ = real_time();
  }
  ~TimedBody() {
    if (is_timed_) add_time();
  }
  TimedBody(const TimedBody&) = delete;
  TimedBody& operator=(const TimedBody&) = delete;

 private:
  void add_time() const;

  static const bool is_timed_;
  const char* kernel_;
  const Cost& cost_;
  Time begin_;
};

}  // namespace ladder
