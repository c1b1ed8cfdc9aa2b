// Communicators for the device of this build: the emulator's, or GPUs where there are any.
#pragma once

#include <memory>
#include <optional>

#include "common/comm/nccl_transport.h"
#include "common/comm/staged_transport.h"
#include "tests/catch.h"
#include "tests/common/comm/ranks.h"

namespace ladder::testing {

// The device, selected; none, which is said, where --config=cuda finds no GPU.
inline std::optional<DeviceType> device_for_tests() {
  const DeviceType device = cuda_device_of_build();
  if (num_devices(device) == 0) {
    WARN("skipped: no GPU");
    return std::nullopt;
  }
  select_device(device, world().node_rank());
  return device;
}

// The same, and NCCL: it wants a GPU for each rank.
inline std::optional<DeviceType> device_for_nccl() {
  const std::optional<DeviceType> device = device_for_tests();
  if (device == DeviceType::cuda && num_devices(*device) < world().node_size()) {
    WARN("skipped: fewer GPUs than ranks");
    return std::nullopt;
  }
  return device;
}

inline std::unique_ptr<Communicator> nccl_world(Ranks& ranks, NcclMemory* memory = nullptr,
                                                bool compare = false,
                                                const NcclOptions& options = {}) {
  return std::make_unique<Communicator>(
      NcclTransport::make(MpiTransport::make_world(world(), &ranks.node_memory),
                          ranks.stream.device(), memory, compare, options));
}

inline std::unique_ptr<Communicator> staged_world(Ranks& ranks,
                                                  size_t staging_bytes = size_t{1} << 16) {
  return std::make_unique<Communicator>(StagedTransport::make(
      MpiTransport::make_world(world(), &ranks.node_memory), ranks.stream.device(), staging_bytes));
}

}  // namespace ladder::testing
