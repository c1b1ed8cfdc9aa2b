// Clusters: what their devices, links and hosts can do, in numbers. notes/clusters.md says how to
// write a file of one, what each number means, and where the numbers of known devices come from.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/program.h"
#include "common/grid/traffic.h"
#include "kernels/runtime/dtype.h"

namespace ladder {

// What moves bytes, in each of its directions at once.
struct Link {
  double bandwidth = 0;   // bytes a second and direction, as its data sheet says
  double efficiency = 0;  // the part of that which large messages reach
  double latency = 0;     // seconds from one end to the other, for a message at full bandwidth

  double rate() const { return bandwidth * efficiency; }
};

// One measurement: how long a kernel takes on each of `busy_ranks` ranks of a node that call it at
// the same time. Its work is given by the extents of its matrix product, by the FLOPs of its
// products or by the bytes that it moves, as Cost counts them (kernels/runtime/cost.h).
struct KernelPoint {
  DType dtype = DType::fp32;
  size_t busy_ranks = 1;
  size_t m = 0, n = 0, k = 0;
  double work = 0;        // 0 if there are extents
  bool in_flops = false;  // whether that are FLOPs, and not bytes
  double seconds = 0;
};
// A kernel's points. Those with work have it all in FLOPs or all in bytes, and no two are alike.
struct MeasuredKernel {
  std::string name = {};                 // as in KernelCall
  std::vector<KernelPoint> points = {};  // by dtype, busy_ranks and work, in this order
};

// One measurement: how long a collective takes, by payload bytes and by the ranks of a node.
struct CollectivePoint {
  Collective collective = Collective::all_reduce;
  size_t num_ranks = 0;
  double bytes = 0;
  double seconds = 0;
};

// The part of the network's bandwidth that collectives reach, by the number of nodes.
struct NetworkPoint {
  size_t num_nodes = 0;
  double efficiency = 0;
};

// `num_nodes` equal nodes with `devices_per_node` devices each. A rank has one device. Ranks fill
// the nodes in order. Seconds, bytes, and operations or bytes a second.
struct Cluster {
  std::string name = {};      // "a100-80x8x64", or the path of its file
  std::string device = {};    // "NVIDIA A100 SXM 80 GB"
  std::string like = {};      // the known device that it has values of, "a100-80"; empty: none
  std::string chip = {};      // programs have one set of values for all with it: "a100"; or empty
  OtherProgram program = {};  // whose kernels it runs
  bool is_cpu = false;        // the ranks of a node share its cores, and the device is the host
  size_t devices_per_node = 1, num_nodes = 1;

  // A device. On a CPU the rates are those of a node, which its busy ranks share.
  size_t device_memory = 0;                  // bytes that a rank can allocate
  size_t multiprocessors = 1;                // they share out the tiles of a product
  std::array<double, 5> product_flops = {};  // greatest rate by DType; 0: it has none
  double vector_flops = 0;                   // of all other operations, in fp32
  double memory_bandwidth = 0;               // reading and writing together
  double launch_seconds = 0;                 // of the host, for each call of a kernel
  double least_kernel_seconds = 0;           // on the device, for a kernel without work
  // The parts of these rates that kernels reach on large shapes; of products by DType.
  std::array<double, 5> product_efficiency = {};
  double attention_forward_efficiency = 0, attention_backward_efficiency = 0;
  double memory_efficiency = 0;

  // Between the devices of a node. Shared: all of them together have one link's bandwidth.
  Link node_link = {};
  bool node_link_shared = false;
  // From node to node: each of a node's `nics_per_node` adapters is such a link.
  Link network = {};
  std::string network_name = {};  // "ib-8x400g"
  size_t nics_per_node = 1;
  // Measured, by the number of nodes of a group. Empty: network.efficiency for all of them.
  std::vector<NetworkPoint> network_points = {};
  // Whether collectives between nodes may use a tree, and small messages a way of less latency.
  bool network_has_fast_ways = true;
  double call_seconds = 0;  // what a collective or a message takes before its first byte moves
  // The part of a device's compute that a collective takes while it runs.
  double node_compute_share = 0, network_compute_share = 0;

  // The host of a node, which its devices share, and the link of each device to it.
  Link host_link = {};
  size_t host_memory = 0;
  double host_memory_bandwidth = 0, host_memory_efficiency = 0, host_flops = 0;

  // What was measured, sorted by name; it wins over the formulas. Empty: formulas alone.
  std::vector<MeasuredKernel> kernels = {};
  std::vector<CollectivePoint> collectives = {};

  size_t num_devices() const { return devices_per_node * num_nodes; }
  size_t node_of(size_t rank) const { return rank / devices_per_node; }
  std::vector<size_t> machine_of(size_t num_ranks) const;  // the node of each rank
  // Returns how many devices' peak rates `num_ranks` ranks have together: one each, but on a CPU
  // the ranks of a node share one.
  double num_peaks(size_t num_ranks) const {
    const size_t sharers = is_cpu ? std::min(num_ranks, devices_per_node) : 1;
    return static_cast<double>(num_ranks) / static_cast<double>(sharers);
  }
};

// Returns the cluster that `name_or_file` says: a path with a slash or ending in .json, or
//   DEVICE[xDEVICES[xNODES]][@NETWORK]   "h100", "h100x8", "a100-80x8x64", "h100x8x64@ib-8x400g"
// NETWORK is KIND-[NICSx]RATEg, with the KIND ib (InfiniBand) or eth (Ethernet, TCP), the NICs of a
// node (1) and the rate of each in Gbit/s: "eth-10g", "ib-8x400g". Without it, the device's file
// says which network nodes of such devices usually have.
//
// Throws a UserError of one line if the device or the network is unknown (naming those that are
// known), or if a file cannot be read, has a key that is unknown or missing, a value of another
// type, or a number that is out of range.
//
// `program` says whose kernels run there: a known program or a path, as above; empty: the lessons'.
// Its file has other values for what depends on that, such as the efficiency of products. Throws,
// too, if it has none for this device, or if the cluster's kernels were measured.
Cluster read_cluster(const std::string& name_or_file, const std::string& program = {});

// Return the devices that names may begin with, and the programs, sorted.
std::vector<std::string> known_devices();
std::vector<std::string> known_programs();

// Returns "(NAME)" or "(NAME), as PROGRAM", in one line.
std::string name_and_program(const Cluster& cluster);

// Throws a UserError if the cluster's devices have no products in the dtype.
void check_dtype(const Cluster& cluster, DType dtype);

// Throws a UserError if the cluster has fewer devices than ranks.
void check_devices(const Cluster& cluster, size_t num_ranks);

}  // namespace ladder
