#include "common/cluster/cluster_text.h"

#include <algorithm>

#include "common/io/printable.h"
#include "common/io/text.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/memory.h"

namespace ladder {
namespace {

// Returns the rate of links, the part of it that messages reach, and their latency.
std::string link_text(const Link& link, size_t num_links, const char* of, const std::string& part) {
  return format("%.4g GB/s%s, %s of it reached, %.3g us",
                1e-9 * link.bandwidth * static_cast<double>(num_links), of, part.c_str(),
                1e6 * link.latency);
}

std::string network_part(const Cluster& cluster) {
  const std::vector<NetworkPoint>& points = cluster.network_points;
  if (points.empty()) return format("%g", cluster.network.efficiency);
  const auto [least, most] = std::ranges::minmax(points, {}, &NetworkPoint::efficiency);
  return format("%g to %g", least.efficiency, most.efficiency);
}

}  // namespace

std::string name_and_program(const Cluster& cluster) {
  const std::string& program = cluster.program.name;
  return concat("(", one_line(cluster.name), ")", program.empty() ? "" : ", as ",
                one_line(program));
}

std::string cluster_list() {
  std::string text;
  for (const std::string& device : known_devices()) {
    const Cluster cluster = read_cluster(device);
    text += format("  %-9s %s, %s, between nodes %s\n", device.c_str(), cluster.device.c_str(),
                   human_bytes(cluster.device_memory).c_str(), cluster.network_name.c_str());
  }
  return concat("--cluster DEVICE[xDEVICES[xNODES]][@NETWORK], such as h100x8x4@ib-8x400g, or a ",
                "file.\nNetworks are efa, eth or ib, -, the adapters of a node, x, and the Gbit/s ",
                "of each, g. Devices:\n", text);
}

std::string program_list() {
  std::string text;
  for (const std::string& program : known_programs()) {
    std::string devices, about;
    for (const std::string& device : known_devices()) {
      try {
        about = read_cluster(device, program).program.about;
        devices += concat(devices.empty() ? "" : ", ", device);
      } catch (const UserError&) {  // it has no values for this device
      }
    }
    text += concat("  ", program, " (", devices, "): ", about, "\n");
  }
  return "--program NAME or a file: whose kernels run there. Known are, with their devices:\n" +
         text;
}

std::string assumption(const std::string& what, const char* flag) {
  return format("  assumed  %-76s %s\n", what.c_str(), flag);
}

std::string assumptions(const Cluster& cluster, size_t num_ranks, DType dtype) {
  const OtherProgram& program = cluster.program;
  std::string text;
  if (num_ranks > cluster.devices_per_node) {
    const bool is_named = cluster.name.find('@') != std::string::npos;
    text += assumption(
        concat("network ", cluster.network_name, ": ",
               link_text(cluster.network, cluster.nics_per_node, " a node", network_part(cluster))),
        is_named ? "--cluster FILE" : "--cluster NAME@NETWORK");
  }
  if (num_ranks > 1 && cluster.devices_per_node > 1 && cluster.collectives.empty()) {
    const std::string part = format("%g", cluster.node_link.efficiency);
    text += assumption("in a node: " + link_text(cluster.node_link, 1, "", part), "--cluster FILE");
  }
  if (program.name.empty()) text += assumption("program: the lessons' kernels", "--program");
  if (!cluster.kernels.empty()) return text;
  const bool is_fused = program.attention_forward_score_bytes == 0;
  const std::string attention = format("%.3g and %.3g", cluster.attention_forward_efficiency,
                                       cluster.attention_backward_efficiency);
  return text + assumption(concat(format("of the peak: products %.3g, memory %.3g",
                                         cluster.product_efficiency[static_cast<size_t>(dtype)],
                                         cluster.memory_efficiency),
                                  is_fused ? ", attention " + attention : "",
                                  program.device.empty() ? "" : ", as on " + program.device),
                           program.name.empty() ? "--cluster FILE" : "--program FILE");
}

}  // namespace ladder
