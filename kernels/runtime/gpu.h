// Which GPUs run the kernels of this build, and which device --device auto takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/device.h"

namespace ladder {

// Returns what nvcc has compiled kernels for, as tools/bazel/cuda.bzl lists it, with commas:
// machine code ("sm_80"), and code that a driver compiles for newer GPUs ("compute_90"). The
// emulator, which has neither, refuses the same GPUs.
std::string_view gpu_code();

// Returns whether such code runs on a GPU of compute capability major.minor. Machine code runs on
// GPUs of its own major number and the same or a higher minor one, the other on all that are not
// older. ("Binary Compatibility" and "PTX Compatibility" in the CUDA C++ Programming Guide.)
bool runs_on(std::string_view code, int major, int minor);

// Throws a UserError if this build has no code for the GPU that this thread uses, or that the
// emulator is: its first kernel would fail.
void require_code_for(DeviceType device);

// What CUDA says of this machine's GPUs.
struct Gpus {
  int count = 0;          // those that this process may use
  std::string why = {};   // why there are none
  std::string name = {};  // of the first, with its compute capability
  bool has_code = false;  // whether this build runs on the first
};

// --device auto takes the GPU if this build has a GPU device, and this machine a GPU that runs this
// build's kernels. Returns nothing then, and otherwise why it takes the CPU.
std::optional<std::string> why_cpu();
// Does the same for a build whose device other than the CPU is `of_build`, on a machine with these
// GPUs. The text is empty if there was no choice: the build has no CUDA, and the machine has no
// driver of NVIDIA (`has_driver`).
std::optional<std::string> why_cpu(DeviceType of_build, const Gpus& gpus, bool has_driver);

}  // namespace ladder
