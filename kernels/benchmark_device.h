// The main function of benchmarks that run on any device of the build.
#pragma once

#include "kernels/runtime/clock.h"
#include "kernels/runtime/device.h"

namespace ladder {

// Takes --device=cpu|cuda|emulator (default cpu) out of the flags, selects the device and names it,
// calls `add`, which registers benchmarks, and runs them. Returns the exit status, which is 2 for a
// wrong flag or a device that is not there.
int run_benchmarks(int argc, char** argv, void (*add)(DeviceType device));

// Returns the wall-clock time of body(), in seconds.
template <class Body>
double seconds_of(Body body) {
  const auto begin = Clock::now();
  body();
  return seconds_since(begin);
}

}  // namespace ladder
