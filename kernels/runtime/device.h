// Devices: what tensors lie on and kernels run on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ladder {

// A build has the CPU and one of the other two: the default build the emulator, which runs the CUDA
// kernels on the CPU (kernels/emulator); --config=cuda the GPUs of this machine.
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

// The other device of this build: cuda or emulator.
DeviceType cuda_device_of_build();

// The device that `--device name` means: auto is cuda where this build and this machine have it,
// else cpu. Throws UserError, naming the ways out, where there is no such device.
DeviceType device_named(const std::string& name);

// From here on this thread uses the GPU number (local_rank modulo the number of GPUs). Nothing on
// the other devices.
void select_device(DeviceType device, size_t local_rank);

// The GPU number that this thread uses; 0 on the other devices.
size_t selected_device(DeviceType device);

// Names the GPU that this thread uses, the same in every process of this machine; "" on the other
// devices.
std::string selected_device_id(DeviceType device);

// GPUs of this machine that this process may use; 1 of the emulator, 0 of the CPU.
size_t num_devices(DeviceType device);

// What the header of a run says: "cpu", "cuda (NVIDIA H200)", "emulator (CUDA kernels on the CPU)".
std::string description_of(DeviceType device);

// Bytes that the device has free for all its ranks, or 0 if it does not say. The CPU's and the
// emulator's are the machine's (host_memory.h).
size_t free_memory(DeviceType device);

}  // namespace ladder
