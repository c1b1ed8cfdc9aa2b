// How long things take on a cluster that is described by numbers (common/cluster).
#pragma once

#include "common/cluster/cluster.h"
#include "common/virtual/time_model.h"

namespace ladder {

// Returns the kind of the cluster's devices. A simulated GPU is cuda or, in a build without
// CUDA, emulator: tensors need some kind of device, and nothing runs there.
DeviceType device_of(const Cluster& cluster);

class ClusterTimes final : public TimeModel {
 public:
  // REQUIRES: the cluster has a device for each of the ranks, and outlives this object.
  ClusterTimes(const Cluster& cluster, size_t num_ranks);

  const Cluster& cluster() const { return cluster_; }
  DeviceType device() const override;
  double kernel_seconds(DeviceType device, const KernelCall& call) const override;
  double copy_seconds(DeviceType to, DeviceType from, size_t bytes) const override;
  double launch_seconds() const override;
  double launches(const KernelCall& call) const override;
  double collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                            size_t bytes) const override;
  double message_seconds(size_t from, size_t to, size_t bytes) const override;
  Port port_between(const std::vector<size_t>& ranks) const override;
  double compute_taken(Port port) const override;

 private:
  const Cluster& cluster_;
  size_t ranks_on_node_;
};

}  // namespace ladder
