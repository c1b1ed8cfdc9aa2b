// Which GPUs run the kernels of this build, and which device --device auto takes.
#pragma once

#include <string>
#include <string_view>

#include "kernels/runtime/device.h"

namespace ladder {

// Returns what nvcc has compiled kernels for, as tools/bazel/cuda.bzl lists it, with commas: machine
// code ("sm_80"), and code that a driver compiles for newer GPUs ("compute_90"). The emulator, which
// has neither, refuses the same GPUs.
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
  int count = 0;             // those that this process may use
  std::string error;         // why there are none, if there are none
  std::string name;          // of the first
  int major = 0, minor = 0;  // its compute capability
};

// The device that --device auto takes, and why, in words for the header; no words where there is
// nothing to choose.
struct ChosenDevice {
  DeviceType device;
  std::string why;
};
// Takes cuda if this build and this machine have it and the first GPU runs this build's kernels,
// else cpu.
ChosenDevice choose_device();
// Does the same for a build's other device and the GPUs that it finds. `has_driver`: whether the
// machine has NVIDIA's driver, with which a user would expect a GPU to be used.
ChosenDevice choose_device(DeviceType of_build, const Gpus& gpus, bool has_driver);

}  // namespace ladder
