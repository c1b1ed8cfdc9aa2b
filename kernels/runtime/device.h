// Devices: tensors lie on them, and kernels run on them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ladder {

// A build has the CPU and one of the other two. The default build has the emulator, which runs the
// CUDA kernels on the CPU (kernels/emulator). --config=cuda has the GPUs of this machine.
enum class DeviceType { cpu, cuda, emulator };

constexpr std::string_view name_of(DeviceType device) {
  switch (device) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
      return "cuda";
    case DeviceType::emulator:
      return "emulator";
  }
  return "?";
}

// Returns the other device of this build: cuda or emulator.
DeviceType cuda_device_of_build();

// Returns the device that `--device name` means. "auto" is cuda if this build and this machine have
// it, else cpu, and why_cpu() says why (gpu.h). Throws a UserError that says what can be done if
// there is no such device.
DeviceType device_named(const std::string& name);

// From now on this thread uses GPU number local_rank modulo the number of GPUs. On other devices it
// does nothing.
void select_device(DeviceType device, size_t local_rank);

// Returns the number of the GPU that this thread uses, and 0 on other devices.
size_t selected_device(DeviceType device);

// Returns a name of the GPU that this thread uses. It is the same in every process of this machine,
// and empty on other devices.
std::string selected_device_id(DeviceType device);

// Returns how many GPUs of this machine this process may use. It is 1 for the emulator, 0 for the
// CPU.
size_t num_devices(DeviceType device);

// Says that the driver is too old, if it is: "the GPU's driver is for CUDA 12.4 and this build
// needs 13.0; install a newer driver". Empty if the driver will do or there is none. Versions are
// those of cudaDriverGetVersion and cudaRuntimeGetVersion, such as 12040; without a driver its is
// 0.
std::string driver_warning(int driver_version, int runtime_version);

// Describes the device for the header of a run: "cpu", "emulator (CUDA kernels on the CPU)" or
// "cuda (NVIDIA H200, compute capability 9.0; this build has code for sm_80,sm_90)".
std::string description_of(DeviceType device);

// Returns the bytes that the device has free for all its ranks together, or 0 if it does not say.
// The CPU and the emulator have the machine's memory (host_memory.h).
size_t free_memory(DeviceType device);

}  // namespace ladder
