// How long communication takes on a cluster. No function here allocates but placement_of() and
// those that return a cluster.
#pragma once

#include <span>

#include "common/cluster/cluster.h"

namespace ladder {

// How the ranks of a group lie on the nodes.
struct GroupPlacement {
  size_t num_ranks = 1;
  size_t num_nodes = 1;       // that have ranks of the group
  size_t ranks_per_node = 1;  // of the group, on the node that has most of them
  // Groups of a node that communicate at the same time and so share its network adapters: if
  // tensor=8 fills the nodes, 8 groups of the data axis.
  size_t groups_per_node = 1;
};

// Returns how the group of these world ranks lies. REQUIRES: ranks of the cluster, each once.
GroupPlacement placement_of(const Cluster& cluster, std::span<const size_t> world_ranks,
                            size_t groups_per_node = 1);

// Returns the seconds of a collective from the last rank's call to the end, if nothing else uses
// the links but the other groups of GroupPlacement. The payload is the bytes of the full vector
// (wire_bytes() in common/grid/traffic.h). 0 for a group of one rank.
//
// A ring has 2 (N-1) hops for an all_reduce, and N-1 for reduce_scatter, all_gather, broadcast and
// reduce. In a ring over M nodes, as NCCL builds it, data leaves each node once: M-1 of N-1 hops
// pass through the network, and the slower of node link and network sets the rate. A tree, in which
// the ranks of a node are a chain and the nodes a binary tree, has fewer hops; it is for
// all_reduce, broadcast and reduce. Small messages may have less latency and less bandwidth. The
// fastest of all these is taken. In all_to_all each rank sends to each other one. A barrier is an
// all_reduce without bytes. If the cluster has points measured for this collective on as many ranks
// of one node, they are interpolated instead. REQUIRES: neither send nor recv, which are
// message_seconds().
double collective_seconds(const Cluster& cluster, Collective collective,
                          const GroupPlacement& placement, double payload_bytes);

// Returns the seconds of a message from one rank to another one, on links that nothing else uses.
double message_seconds(const Cluster& cluster, size_t from_rank, size_t to_rank, double bytes);

// Returns the seconds of a copy between a device and its host, in either direction.
double copy_seconds(const Cluster& cluster, double bytes);

// Returns the cluster as it would be if communication took no time.
Cluster without_communication(Cluster cluster);

// Returns the cluster with `factor` times the bandwidth of what connects `num_ranks` ranks: of the
// network, or of the links in a node if one node has them all.
Cluster with_network(Cluster cluster, double factor, size_t num_ranks);

}  // namespace ladder
