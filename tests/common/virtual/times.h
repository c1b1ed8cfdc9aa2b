// A cluster with times that are easy to add up.
#pragma once

#include "common/virtual/time_model.h"

namespace ladder {

// A kernel takes a second for each FLOP, a copy a second for each byte, a collective or message a
// second for each byte, and the host 0.25 seconds to queue something. While ranks communicate, a
// quarter of a device's compute is gone.
class SimpleTimes : public TimeModel {
 public:
  DeviceType device() const override { return DeviceType::emulator; }
  double kernel_seconds(DeviceType, const KernelCall& call) const override {
    return call.cost.product_flops;
  }
  double copy_seconds(DeviceType, DeviceType, size_t bytes) const override {
    return static_cast<double>(bytes);
  }
  double launch_seconds() const override { return 0.25; }
  double collective_seconds(Collective, const std::vector<size_t>&, size_t bytes) const override {
    return static_cast<double>(bytes);
  }
  double message_seconds(size_t, size_t, size_t bytes) const override {
    return static_cast<double>(bytes);
  }
  Port port_between(const std::vector<size_t>&) const override { return Port::inside; }
  double compute_taken(Port) const override { return 0.25; }
};

}  // namespace ladder
