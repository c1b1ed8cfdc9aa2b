#include "common/cluster/comm_time.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

constexpr std::array kAll = {Collective::all_reduce, Collective::reduce_scatter,
                             Collective::all_gather, Collective::broadcast,
                             Collective::reduce,     Collective::all_to_all};

// Nodes of four devices that send 10 GB/s each; a node sends 2 x 1 GB/s.
Cluster small_cluster() {
  return {.devices_per_node = 4,
          .num_nodes = 8,
          .node_link = {.bandwidth = 20e9, .efficiency = 0.5, .latency = 1e-6},
          .network = {.bandwidth = 2e9, .efficiency = 0.5, .latency = 1e-5},
          .nics_per_node = 2,
          .call_seconds = 1e-4,
          .host_link = {.bandwidth = 10e9, .efficiency = 0.8, .latency = 1e-3}};
}

GroupPlacement consecutive(const Cluster& cluster, size_t num_ranks) {
  std::vector<size_t> ranks(num_ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  return placement_of(cluster, ranks);
}

TEST_CASE("the placement of a group") {
  const Cluster cluster = small_cluster();
  const auto check = [&](std::vector<size_t> ranks, size_t nodes, size_t per_node) {
    const GroupPlacement placement = placement_of(cluster, ranks, 3);
    CHECK(placement.num_ranks == ranks.size());
    CHECK(placement.num_nodes == nodes);
    CHECK(placement.ranks_per_node == per_node);
    CHECK(placement.groups_per_node == 3);
  };
  check({5}, 1, 1);
  check({0, 1, 2, 3}, 1, 4);
  check({0, 4, 8, 12}, 4, 1);
  check({14, 2, 3, 1, 4}, 3, 3);
}

TEST_CASE("large collectives in a node take the bytes of a ring") {
  const Cluster cluster = small_cluster();
  const GroupPlacement placement = consecutive(cluster, 4);
  const auto seconds = [&](Collective collective) {
    return collective_seconds(cluster, collective, placement, 8e9) - 1e-4;
  };
  CHECK(seconds(Collective::all_reduce) == Approx(6e-6 + 2 * 6e9 / 10e9));
  CHECK(seconds(Collective::reduce_scatter) == Approx(3e-6 + 6e9 / 10e9));
  CHECK(seconds(Collective::all_gather) == Approx(3e-6 + 6e9 / 10e9));
  CHECK(seconds(Collective::broadcast) == Approx(3e-6 + 8e9 / 10e9));
  CHECK(seconds(Collective::reduce) == Approx(3e-6 + 8e9 / 10e9));
  CHECK(seconds(Collective::all_to_all) == Approx(3e-6 + 6e9 / 10e9));
}

TEST_CASE("small collectives take latency") {
  const Cluster cluster = small_cluster();
  const GroupPlacement node = consecutive(cluster, 4), all = consecutive(cluster, 32);
  const auto seconds = [&](Collective collective, const GroupPlacement& placement) {
    return collective_seconds(cluster, collective, placement, 0) - 1e-4;
  };
  CHECK(seconds(Collective::all_reduce, node) == Approx(0.18 * 6e-6));
  CHECK(seconds(Collective::barrier, node) == seconds(Collective::all_reduce, node));
  CHECK(seconds(Collective::all_gather, node) == Approx(0.18 * 3e-6));
  // 8 nodes: a tree has 3 hops in the node and 3 between nodes, the ring 24 and 7.
  CHECK(seconds(Collective::all_reduce, all) == Approx(0.35 * 2 * (3e-6 + 3e-5)));
  CHECK(seconds(Collective::broadcast, all) == Approx(0.35 * (3e-6 + 3e-5)));
  CHECK(seconds(Collective::reduce_scatter, all) == Approx(0.35 * (24e-6 + 7e-5)));
  CHECK(collective_seconds(cluster, Collective::all_reduce, {}, 8e9) == 0);
}

TEST_CASE("between nodes the adapters set the rate") {
  const Cluster cluster = small_cluster();
  const auto rate = [&](GroupPlacement placement) {
    return 1e12 / collective_seconds(cluster, Collective::broadcast, placement, 1e12);
  };
  const auto near = [](double expected) { return Approx(expected).epsilon(1e-3); };
  CHECK(rate({.num_ranks = 8, .num_nodes = 2, .ranks_per_node = 4}) == near(2e9));
  CHECK(rate({.num_ranks = 2, .num_nodes = 2, .ranks_per_node = 1}) == near(1e9));
  CHECK(rate({.num_ranks = 4, .num_nodes = 2, .ranks_per_node = 2}) == near(2e9));
  CHECK(rate({.num_ranks = 2, .num_nodes = 2, .ranks_per_node = 1, .groups_per_node = 2}) ==
        near(1e9));
  CHECK(rate({.num_ranks = 2, .num_nodes = 2, .ranks_per_node = 1, .groups_per_node = 4}) ==
        near(0.5e9));
  CHECK(rate({.num_ranks = 4, .num_nodes = 2, .ranks_per_node = 2, .groups_per_node = 2}) ==
        near(1e9));
}

TEST_CASE("devices may share a link of their node") {
  Cluster cluster = small_cluster();
  cluster.node_link_shared = true;
  const GroupPlacement placement = {.num_ranks = 2, .ranks_per_node = 2, .groups_per_node = 2};
  CHECK(collective_seconds(cluster, Collective::all_gather, placement, 1e12) ==
        Approx(0.5e12 / 2.5e9).epsilon(1e-3));
}

TEST_CASE("all_to_all sends most of its parts through the network") {
  const Cluster cluster = small_cluster();
  // Each of 4 ranks of a node has 4 parts of 1e9 bytes for the other node, which has 2 GB/s.
  const GroupPlacement placement = consecutive(cluster, 8);
  CHECK(collective_seconds(cluster, Collective::all_to_all, placement, 8e9) ==
        Approx(1e-4 + 4e-5 + 16e9 / 2e9));
}

TEST_CASE("messages and copies") {
  const Cluster cluster = small_cluster();
  CHECK(message_seconds(cluster, 0, 3, 1e10) == Approx(1e-4 + 1e-6 + 1));
  CHECK(message_seconds(cluster, 3, 4, 1e10) == Approx(1e-4 + 1e-5 + 10));
  CHECK(message_seconds(cluster, 4, 3, 0) == Approx(1e-4 + 0.35e-5));
  CHECK(copy_seconds(cluster, 8e9) == Approx(1e-3 + 1));
}

TEST_CASE("a message is no collective") {
  const Cluster cluster = small_cluster();
  CHECK_THROWS_AS(collective_seconds(cluster, Collective::send, consecutive(cluster, 2), 8), Error);
}

TEST_CASE("time grows with bytes, ranks and groups") {
  const Cluster cluster = read_cluster("h100x8x64");
  for (Collective collective : kAll) {
    CAPTURE(name_of(collective));
    double last = 0;
    for (double bytes = 1; bytes < 1e11; bytes *= 2) {
      const double seconds =
          collective_seconds(cluster, collective, consecutive(cluster, 32), bytes);
      CHECK(seconds >= last);
      last = seconds;
    }
    last = 0;
    for (size_t ranks : {2, 4, 8, 16, 32, 64, 512}) {
      const double seconds =
          collective_seconds(cluster, collective, consecutive(cluster, ranks), 1e9);
      CHECK(seconds >= last);
      last = seconds;
    }
    GroupPlacement placement = {.num_ranks = 8, .num_nodes = 8, .ranks_per_node = 1};
    last = 0;
    for (placement.groups_per_node = 1; placement.groups_per_node <= 16;
         placement.groups_per_node *= 2) {
      const double seconds = collective_seconds(cluster, collective, placement, 1e9);
      CHECK(seconds >= last);
      last = seconds;
    }
    CHECK(last > 1.9 * collective_seconds(cluster, collective, {8, 8, 1, 8}, 1e9));
  }
}

TEST_CASE("random groups: no faster than their links, and faster links are no slower") {
  std::mt19937 random(4);
  const auto between = [&](size_t least, size_t most) {
    return least + random() % (most - least + 1);
  };
  for (size_t i = 0; i < 300; ++i) {
    Cluster cluster = small_cluster();
    cluster.devices_per_node = between(1, 8);
    cluster.nics_per_node = between(1, 8);
    cluster.node_link.bandwidth = 1e9 * static_cast<double>(between(1, 100));
    cluster.network.bandwidth = 1e9 * static_cast<double>(between(1, 100));
    cluster.network_has_fast_ways = between(0, 1) == 1;
    std::vector<size_t> ranks(cluster.num_devices());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::ranges::shuffle(ranks, random);
    ranks.resize(between(2, std::max<size_t>(2, ranks.size())));
    const GroupPlacement placement = placement_of(cluster, ranks, between(1, 4));
    std::ranges::sort(ranks);
    const double bytes = static_cast<double>(between(1, 1'000'000'000));
    for (Collective collective : kAll) {
      CAPTURE(i, name_of(collective), ranks, bytes);
      const auto seconds = [&](const Cluster& its, double payload) {
        return collective_seconds(its, collective, placement, payload);
      };
      const double taken = seconds(cluster, bytes);
      CHECK(taken == collective_seconds(cluster, collective,
                                        placement_of(cluster, ranks, placement.groups_per_node),
                                        bytes));
      CHECK(seconds(cluster, 2 * bytes) >= taken);
      CHECK(seconds(cluster, 2 * bytes) <= 2 * taken);
      Cluster faster = cluster;
      faster.node_link.bandwidth *= 2;
      CHECK(seconds(faster, bytes) <= taken);
      faster.network.bandwidth *= 2;
      CHECK(seconds(faster, bytes) <= taken);
      // A node's adapters send at least what its ranks together put into a ring.
      const double n = static_cast<double>(ranks.size());
      const double rounds = collective == Collective::all_reduce ? 2 : 1;
      const double network = cluster.network.rate() * static_cast<double>(cluster.nics_per_node);
      const double link = placement.num_nodes > 1 ? network : cluster.node_link.rate();
      CHECK(taken >= cluster.call_seconds + rounds * (n - 1) / n * bytes / link);
      const auto of = [&](Collective other) {
        return collective_seconds(cluster, other, placement, bytes);
      };
      CHECK(of(Collective::all_reduce) <=
            of(Collective::reduce_scatter) + of(Collective::all_gather));
    }
  }
}

// The bandwidth of nccl-tests, in GB/s.
double bus_bandwidth(const std::string& name, Collective collective, double bytes) {
  const Cluster cluster = read_cluster(name);
  const size_t ranks = cluster.num_devices();
  const double wire = wire_bytes(collective, ranks, static_cast<size_t>(bytes));
  return wire / collective_seconds(cluster, collective, consecutive(cluster, ranks), bytes) / 1e9;
}

// Measured values are from stas00/ml-engineering, network: results of 8 H200 and of 4 nodes of 8
// B200. There is one of 8 H200 in which the host waits for each call (first) and one in which it
// does not (second); from 2 MiB on NCCL sums within the switches, which is not modelled and brings
// 1.31 times the bandwidth at 16 GiB. Fitted: node_link_efficiency and the network's efficiency.
TEST_CASE("published bandwidths of all_reduce") {
  const auto in_node = [](double bytes) {
    return bus_bandwidth("h200x8", Collective::all_reduce, bytes);
  };
  constexpr double kMiB = 1 << 20;
  CHECK(in_node(16 * 1024 * kMiB) == Approx(367.6).epsilon(0.01));  // the ring
  CHECK(bus_bandwidth("h200x8", Collective::all_gather, 16 * 1024 * kMiB) ==
        Approx(361.4).epsilon(0.02));
  CHECK(bus_bandwidth("h200x8", Collective::reduce_scatter, 16 * 1024 * kMiB) ==
        Approx(362.9).epsilon(0.02));
  struct Point {
    double mib, waiting, queued;
  };
  for (const auto& [mib, waiting, queued] :
       {Point{1.0 / 32, 1.44, 3.15}, Point{1, 39.93, 74.57}, Point{8, 155.53, 196.56},
        Point{32, 275.84, 301.25}, Point{64, 346.51, 368.86}, Point{256, 436.15, 441.87},
        Point{1024, 463.58, 465.91}}) {
    CAPTURE(mib);
    CHECK(in_node(mib * kMiB) > 0.75 * waiting);
    CHECK(in_node(mib * kMiB) < 1.15 * queued);
  }
  const auto between = [](double mib) {
    return bus_bandwidth("b200x8x4", Collective::all_reduce, mib * kMiB);
  };
  CHECK(between(16 * 1024) == Approx(376.71).epsilon(0.01));
  CHECK(between(1024) == Approx(365.99).epsilon(0.03));
  CHECK(between(128) == Approx(260.50).epsilon(0.03));
  CHECK(between(32) == Approx(142.90).epsilon(0.01));
  CHECK(between(8) == Approx(50.61).epsilon(0.35));
  // The host waits there, which takes some 30 us; without that it would be 0.9 GB/s.
  CHECK(between(1.0 / 32) > 0.65);
  CHECK(between(1.0 / 32) < 2 * 0.9);
}

// An all_reduce of 256 MiB on nodes of 8 H100 with AWS's network, from the Ultra-Scale Playbook.
// With NCCL's own latency for it we are within 17 % for 2, 32 and 64 nodes; the efficiency is
// fitted to the first of these, without the latency. It would be 40 to 83 % too fast for 4 to 16
// nodes, for which we know no reason: there the efficiencies are what was measured.
TEST_CASE("published bandwidths of all_reduce on AWS's network") {
  const auto between = [](size_t nodes) {
    return bus_bandwidth(concat("h100x8x", nodes, "@efa-8x400g"), Collective::all_reduce, 0x1p28);
  };
  CHECK(between(2) == Approx(361.7).epsilon(0.17));
  CHECK(between(4) == Approx(160.1).epsilon(0.01));
  CHECK(between(8) == Approx(99.6).epsilon(0.01));
  CHECK(between(16) == Approx(84.7).epsilon(0.01));
  CHECK(between(32) == Approx(64.9).epsilon(0.1));
  CHECK(between(64) == Approx(32.9).epsilon(0.17));
}

TEST_CASE("efficiencies of a network by the number of nodes are interpolated") {
  Cluster cluster = small_cluster();
  cluster.devices_per_node = 1;
  cluster.num_nodes = 64;
  cluster.network.latency = 0;
  cluster.network_points = {{4, 0.8}, {16, 0.4}};
  // Of so many bytes that nothing else counts, relative to what all of the bandwidth would take.
  const auto part = [&](size_t nodes) {
    Cluster perfect = cluster;
    perfect.network_points.clear();
    perfect.network.efficiency = 1;
    const auto seconds = [&](const Cluster& one) {
      return collective_seconds(one, Collective::all_gather, consecutive(one, nodes), 1e15);
    };
    return seconds(perfect) / seconds(cluster);
  };
  CHECK(part(2) == Approx(0.8));
  CHECK(part(4) == Approx(0.8));
  CHECK(part(8) == Approx(0.6));  // half way, since each point has twice as many nodes
  CHECK(part(16) == Approx(0.4));
  CHECK(part(64) == Approx(0.4));
}

// The 58 MB of a large layer are far from the 370 GB/s of large messages; jax-ml/scaling-book,
// gpus.md, measured 150 GB/s there, ml-engineering (above) twice as much.
TEST_CASE("a middling all_reduce does not reach a node's bandwidth") {
  const double bandwidth = bus_bandwidth("h100x8", Collective::all_reduce, 58e6);
  CHECK(bandwidth > 150);
  CHECK(bandwidth < 0.85 * 370);
}

TEST_CASE("measured collectives are interpolated") {
  Cluster cluster = small_cluster();
  cluster.collectives = {{Collective::all_reduce, 2, 1000, 1e-3},
                         {Collective::all_reduce, 2, 3000, 2e-3},
                         {Collective::all_reduce, 4, 1000, 5e-3}};
  const auto seconds = [&](size_t ranks, double bytes) {
    return collective_seconds(cluster, Collective::all_reduce, consecutive(cluster, ranks), bytes);
  };
  CHECK(seconds(2, 10) == Approx(1e-3));
  CHECK(seconds(2, 2000) == Approx(1.5e-3));
  CHECK(seconds(2, 6000) == Approx(4e-3));
  CHECK(seconds(4, 1000) == Approx(5e-3));
  CHECK(seconds(3, 8e9) == Approx(1e-4 + 4e-6 + 16e9 / 3 * 2 / 10e9));
  CHECK(seconds(8, 8e9) > 1);  // between nodes nothing was measured
}

TEST_CASE("Half and twice the network is that of the nodes, or of the only node's links") {
  const Cluster known = read_cluster("h100x8x2");
  const std::vector<size_t> one_node = {0, 1, 2, 3}, both = {0, 8};
  const auto seconds = [&](const Cluster& cluster, const std::vector<size_t>& ranks) {
    return collective_seconds(cluster, Collective::all_gather, placement_of(cluster, ranks), 1e9);
  };
  const Cluster half = with_network(known, 0.5, 16);
  CHECK(half.network.bandwidth == read_cluster("h100x8x2@ib-8x200g").network.bandwidth);
  CHECK(seconds(half, one_node) == seconds(known, one_node));
  CHECK(seconds(half, both) > 1.9 * seconds(known, both));
  const Cluster twice = with_network(known, 2, 8);
  CHECK(seconds(twice, both) == seconds(known, both));
  CHECK(seconds(twice, one_node) < 0.6 * seconds(known, one_node));
}

}  // namespace
}  // namespace ladder
