#include "common/virtual/cluster_times.h"

#include <algorithm>

#include "common/cluster/comm_time.h"
#include "common/cluster/kernel_time.h"

namespace ladder {

DeviceType device_of(const Cluster& cluster) {
  return cluster.is_cpu ? DeviceType::cpu : cuda_device_of_build();
}

ClusterTimes::ClusterTimes(const Cluster& cluster, size_t num_ranks)
    : cluster_(cluster), ranks_on_node_(std::min(num_ranks, cluster.devices_per_node)) {}

DeviceType ClusterTimes::device() const { return device_of(cluster_); }

double ClusterTimes::kernel_seconds(DeviceType device, const KernelCall& call) const {
  return device == this->device() ? ladder::kernel_seconds(cluster_, call, ranks_on_node_)
                                  : host_kernel_seconds(cluster_, call, ranks_on_node_);
}

double ClusterTimes::copy_seconds(DeviceType to, DeviceType from, size_t bytes) const {
  if (to != from) return ladder::copy_seconds(cluster_, number_of(bytes));
  const KernelCall copying = {
      "copy", DType::fp32, {.bytes_read = number_of(bytes), .bytes_written = number_of(bytes)}};
  return kernel_seconds(to, copying);
}

double ClusterTimes::launch_seconds() const { return cluster_.launch_seconds; }

double ClusterTimes::launches(const KernelCall& call) const {
  return cluster_.program.instead_of(call.name).launches;
}

double ClusterTimes::collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                                        size_t bytes) const {
  GroupPlacement placement = placement_of(cluster_, ranks);
  // All ranks of a node are in such a group, and all groups communicate at the same time.
  if (placement.num_nodes > 1) {
    placement.groups_per_node = std::max<size_t>(1, ranks_on_node_ / placement.ranks_per_node);
  }
  return ladder::collective_seconds(cluster_, collective, placement, number_of(bytes));
}

double ClusterTimes::message_seconds(size_t from, size_t to, size_t bytes) const {
  return ladder::message_seconds(cluster_, from, to, number_of(bytes));
}

Port ClusterTimes::port_between(const std::vector<size_t>& ranks) const {
  const auto elsewhere = [&](size_t rank) {
    return cluster_.node_of(rank) != cluster_.node_of(ranks.front());
  };
  return std::ranges::any_of(ranks, elsewhere) ? Port::network : Port::inside;
}

double ClusterTimes::compute_taken(Port port) const {
  return port == Port::network ? cluster_.network_compute_share : cluster_.node_compute_share;
}

}  // namespace ladder
