#include "common/cluster/comm_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "kernels/runtime/check.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

// What follows is from NCCL's own model of its algorithms, src/graph/tuning.cc.
// A small message may be sent in a way with less latency and less bandwidth (the protocol LL): in a
// node 0.6 instead of 3.4 us; between nodes 5 instead of 14 us, and 1.8 times as much in the nodes.
constexpr double kSmallLatency = 0.18, kSmallLatencyBetween = 0.35, kSmallBandwidth = 0.25;
// A tree reaches this part of the bandwidth. Its messages are segments of 256 KB, which make each
// of its hops longer by the first constant in a node and by the second one between nodes.
constexpr double kTreePart = 0.9, kSegmentSeconds = 22e-6, kSegmentSecondsBetween = 44e-6;

// Returns the seconds for bytes at a rate after a latency: the less of the way for large messages,
// to whose latency `segments` is added, and of the way for small ones.
double seconds_of(const Cluster& cluster, double latency, double bytes, double rate, bool between,
                  double segments = 0) {
  const double large_way = latency + segments + bytes / rate;
  if (between && !cluster.network_has_fast_ways) return large_way;
  const double small = between ? kSmallLatencyBetween : kSmallLatency;
  return std::min(large_way, small * latency + bytes / (kSmallBandwidth * rate));
}

// Returns the rate at which each device of a group sends to others of its node.
double node_rate(const Cluster& cluster, const GroupPlacement& placement) {
  const double rate = cluster.node_link.rate();
  if (!cluster.node_link_shared) return rate;
  return rate / number_of(placement.ranks_per_node * placement.groups_per_node);
}

// Returns the part of the network's bandwidth that a group on so many nodes reaches. Between two
// points it is linear in the logarithm of the number, and beyond the last one as there.
double network_part(const Cluster& cluster, size_t num_nodes) {
  const auto& points = cluster.network_points;
  const auto high = std::ranges::lower_bound(points, num_nodes, {}, &NetworkPoint::num_nodes);
  if (points.empty()) return cluster.network.efficiency;
  if (high == points.end()) return points.back().efficiency;
  if (high == points.begin()) return high->efficiency;
  const NetworkPoint& low = *std::prev(high);
  const auto ratio = [&](size_t number) {
    return std::log(number_of(number) / number_of(low.num_nodes));
  };
  const double way = ratio(num_nodes) / ratio(high->num_nodes);
  return low.efficiency + way * (high->efficiency - low.efficiency);
}

// Returns the rate at which a group sends from one of its nodes to others. A rank uses one adapter.
double network_rate(const Cluster& cluster, const GroupPlacement& placement) {
  const double nics = number_of(cluster.nics_per_node);
  const double used = std::min(number_of(placement.ranks_per_node), nics);
  const double rate = cluster.network.bandwidth * network_part(cluster, placement.num_nodes);
  return rate * std::min(used, nics / number_of(placement.groups_per_node));
}

// Returns the rate of a ring or a tree, in which each byte leaves a node once.
double stream_rate(const Cluster& cluster, const GroupPlacement& placement) {
  if (placement.num_nodes == 1) return node_rate(cluster, placement);
  const double network = network_rate(cluster, placement);
  return placement.ranks_per_node > 1 ? std::min(node_rate(cluster, placement), network) : network;
}

// Returns the latency of so many hops in nodes and between them.
double hops(const Cluster& cluster, size_t in_nodes, size_t between) {
  return number_of(in_nodes) * cluster.node_link.latency +
         number_of(between) * cluster.network.latency;
}

// Returns the seconds of one or two rounds of a ring, reduce_scatter and all_gather.
double ring_seconds(const Cluster& cluster, const GroupPlacement& placement, double rounds,
                    double bytes) {
  const size_t num = placement.num_ranks, nodes = placement.num_nodes;
  const double latency = rounds * hops(cluster, num - nodes, nodes - 1);
  return seconds_of(cluster, latency, rounds * bytes, stream_rate(cluster, placement), nodes > 1);
}

// Returns the seconds of one or two ways through a tree, to the root and back; infinity if the
// network has none.
double tree_seconds(const Cluster& cluster, const GroupPlacement& placement, double ways,
                    double bytes) {
  if (placement.num_nodes > 1 && !cluster.network_has_fast_ways)
    return std::numeric_limits<double>::infinity();
  const size_t chain = placement.ranks_per_node - 1,
               depth = std::bit_width(placement.num_nodes - 1);
  const double segments =
      number_of(chain) * kSegmentSeconds + number_of(depth) * kSegmentSecondsBetween;
  return seconds_of(cluster, ways * hops(cluster, chain, depth), ways * bytes,
                    kTreePart * stream_rate(cluster, placement), placement.num_nodes > 1,
                    ways * segments);
}

// Each rank sends a part to every other one: those of its node by the link, the others by the
// network, both at the same time.
double all_to_all_seconds(const Cluster& cluster, const GroupPlacement& placement, double bytes) {
  const double part = bytes / number_of(placement.num_ranks);
  const size_t near = placement.ranks_per_node - 1,
               far = placement.num_ranks - placement.ranks_per_node;
  const double in_node = seconds_of(cluster, hops(cluster, near, 0), number_of(near) * part,
                                    node_rate(cluster, placement), false);
  if (far == 0) return in_node;
  const double leaving = number_of(placement.ranks_per_node * far) * part;
  return std::max(in_node, seconds_of(cluster, hops(cluster, 0, far), leaving,
                                      network_rate(cluster, placement), true));
}

// Returns the seconds by the points that were measured, or 0 if there are none: proportional to the
// bytes between a point and the next.
double measured_seconds(const Cluster& cluster, Collective collective,
                        const GroupPlacement& placement, double bytes) {
  const CollectivePoint* low = nullptr;
  for (const CollectivePoint& p : cluster.collectives) {
    if (p.collective != collective || p.num_ranks != placement.num_ranks) continue;
    if (p.bytes >= bytes) {
      if (!low) return p.seconds;
      const double part = (bytes - low->bytes) / (p.bytes - low->bytes);
      return low->seconds + part * (p.seconds - low->seconds);
    }
    low = &p;
  }
  return low ? low->seconds * bytes / low->bytes : 0;
}

double formula_seconds(const Cluster& cluster, Collective collective,
                       const GroupPlacement& placement, double bytes) {
  const double others = number_of(placement.num_ranks - 1) / number_of(placement.num_ranks) * bytes;
  switch (collective) {
    case Collective::all_reduce:
      return std::min(ring_seconds(cluster, placement, 2, others),
                      tree_seconds(cluster, placement, 2, bytes));
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return ring_seconds(cluster, placement, 1, others);
    case Collective::broadcast:
    case Collective::reduce:
      return std::min(ring_seconds(cluster, placement, 1, bytes),
                      tree_seconds(cluster, placement, 1, bytes));
    case Collective::all_to_all:
      return all_to_all_seconds(cluster, placement, bytes);
    case Collective::barrier:
      return formula_seconds(cluster, Collective::all_reduce, placement, 0);
    case Collective::send:
    case Collective::recv:
      break;
  }
  fail("collective_seconds: a message is no collective");
}

}  // namespace

GroupPlacement placement_of(const Cluster& cluster, std::span<const size_t> world_ranks,
                            size_t groups_per_node) {
  std::vector<size_t> nodes;
  for (size_t rank : world_ranks) nodes.push_back(cluster.node_of(rank));
  std::ranges::sort(nodes);
  GroupPlacement placement = {.num_ranks = nodes.size(),
                              .num_nodes = 0,
                              .ranks_per_node = 0,
                              .groups_per_node = groups_per_node};
  for (auto begin = nodes.begin(); begin != nodes.end();) {
    const auto end = std::upper_bound(begin, nodes.end(), *begin);
    placement.ranks_per_node = std::max(placement.ranks_per_node, static_cast<size_t>(end - begin));
    ++placement.num_nodes;
    begin = end;
  }
  return placement;
}

double collective_seconds(const Cluster& cluster, Collective collective,
                          const GroupPlacement& placement, double payload_bytes) {
  if (placement.num_ranks <= 1) return 0;
  if (!cluster.collectives.empty() && placement.num_nodes == 1) {
    const double seconds = measured_seconds(cluster, collective, placement, payload_bytes);
    if (seconds > 0) return seconds;
  }
  return cluster.call_seconds + formula_seconds(cluster, collective, placement, payload_bytes);
}

double message_seconds(const Cluster& cluster, size_t from_rank, size_t to_rank, double bytes) {
  const bool near = cluster.node_of(from_rank) == cluster.node_of(to_rank);
  const Link& link = near ? cluster.node_link : cluster.network;
  return cluster.call_seconds + seconds_of(cluster, link.latency, bytes, link.rate(), !near);
}

double copy_seconds(const Cluster& cluster, double bytes) {
  return cluster.host_link.latency + bytes / cluster.host_link.rate();
}

Cluster without_communication(Cluster cluster) {
  for (Link* const link : {&cluster.node_link, &cluster.network}) {
    link->bandwidth = 1e30;
    link->latency = 0;
  }
  cluster.call_seconds = 0;
  cluster.node_compute_share = cluster.network_compute_share = 0;
  cluster.collectives.clear();
  return cluster;
}

Cluster with_network(Cluster cluster, double factor, size_t num_ranks) {
  const bool is_one_node = num_ranks <= cluster.devices_per_node;
  (is_one_node ? cluster.node_link : cluster.network).bandwidth *= factor;
  return cluster;
}

}  // namespace ladder
