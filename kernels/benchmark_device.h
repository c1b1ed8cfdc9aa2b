// What benchmarks that run on any device of the build share. For benchmarks only.
#pragma once

#include "kernels/runtime/clock.h"
#include "kernels/runtime/device.h"

namespace ladder {

// The main function of such a benchmark: takes --device=cpu|cuda|emulator (cpu) out of the flags,
// selects the device and names it, calls `add`, which registers benchmarks, and runs them. Returns
// the exit status: 2 for a wrong flag or a device that is not there.
int run_benchmarks(int argc, char** argv, void (*add)(DeviceType device));

// The wall-clock time of body().
template <class Body>
double seconds_of(Body body) {
  const auto begin = Clock::now();
  body();
  return seconds_since(begin);
}

}  // namespace ladder
