// How long things take on a simulated cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/comm/ledger.h"
#include "kernels/runtime/cost.h"
#include "kernels/runtime/device.h"

namespace ladder {

// What an operation uses. Operations of one rank that use the same share it: each of n gets 1 / n.
enum class Port : uint8_t {
  compute,  // the device's processors and memory
  host,     // the processors of the rank's share of its machine, for kernels that run there
  copy,     // the way between host and device
  inside,   // links between the devices of a node
  network,  // the way to other nodes
};
inline constexpr size_t kNumPorts = 5;

// All times are in seconds, for an operation that has its ports to itself.
class TimeModel {
 public:
  virtual ~TimeModel() = default;
  // The kind of the devices that the ranks have.
  virtual DeviceType device() const = 0;
  // A kernel on a rank's device, or on its host.
  virtual double kernel_seconds(DeviceType device, const KernelCall& call) const = 0;
  virtual double copy_seconds(DeviceType to, DeviceType from, size_t bytes) const = 0;
  // What the host needs to queue an operation for a device.
  virtual double launch_seconds() const = 0;
  // How many operations a kernel's call is: more than 1 if it stands for several kernels.
  virtual double launches(const KernelCall&) const { return 1; }
  // A collective between these ranks of the world; `bytes` are those of the full vector.
  virtual double collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                                    size_t bytes) const = 0;
  virtual double message_seconds(size_t from, size_t to, size_t bytes) const = 0;
  // The port that operations between these ranks use: inside a node, or the network.
  virtual Port port_between(const std::vector<size_t>& ranks) const = 0;
  // The fraction of a device's compute that communication over this port takes while it runs.
  virtual double compute_taken(Port port) const = 0;
};

}  // namespace ladder
