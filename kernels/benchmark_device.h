// What benchmarks that run on any device of the build share. For benchmarks only.
#pragma once

#include "kernels/runtime/device.h"

namespace ladder {

// The main function of such a benchmark: takes --device=cpu|cuda|emulator (cpu) out of the flags,
// selects the device and names it, calls `add`, which registers benchmarks, and runs them. Returns
// the exit status: 2 for a wrong flag or a device that is not there.
int run_benchmarks(int argc, char** argv, void (*add)(DeviceType device));

}  // namespace ladder
