#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tools/measure/calibrator/calibration.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMeasured = "measured by tools/calibrate";

Json sourced(const Json& value, const std::string& source) {
  Json json;
  json["value"] = value;
  json["source"] = source;
  return json;
}

// The keys that describe the machine, with their sources.
Json header_of(const Cluster& cluster) {
  const bool has_links = !cluster.collectives.empty();
  const std::string links =
      has_links ? kMeasured : "estimate: tools/calibrate measured only one rank";
  const auto flops = [&](DType dtype) { return cluster.product_flops[static_cast<size_t>(dtype)]; };
  const std::string product = concat(kMeasured, ": a product of 512 x 512 x 512");
  const std::array<std::tuple<const char*, Json, std::string>, 24> keys = {{
      {"device", cluster.device, kMeasured},
      {"kind", "cpu", kMeasured},
      {"devices_per_node", cluster.devices_per_node, "a rank for each core, and at least two"},
      {"network", "eth-1g", "estimate: not measured, this is one machine"},
      {"fp32_product_flops", flops(DType::fp32), concat(kMeasured, ": multiply-adds in registers")},
      {"fp64_product_flops", flops(DType::fp64), product},
      {"bf16_product_flops", flops(DType::bf16), product},
      {"fp16_product_flops", flops(DType::fp16), product},
      {"product_efficiency", cluster.product_efficiency[0], product},
      {"attention_forward_efficiency", cluster.attention_forward_efficiency, kMeasured},
      {"attention_backward_efficiency", cluster.attention_backward_efficiency, kMeasured},
      {"vector_flops", cluster.vector_flops, "estimate: as products"},
      {"memory_bandwidth", cluster.memory_bandwidth, concat(kMeasured, ": a[i] += b[i]")},
      {"memory_efficiency", cluster.memory_efficiency, "the bandwidth is what a kernel reaches"},
      {"launch_seconds", 0, "kernels run in the calling thread"},
      {"least_kernel_seconds", cluster.least_kernel_seconds, concat(kMeasured, ": a small fill")},
      {"node_link_bandwidth", cluster.node_link.bandwidth, concat(links, ": a message of 1 MiB")},
      {"node_link_efficiency", cluster.node_link.efficiency, links},
      {"node_link_latency", cluster.node_link.latency, "it is part of call_seconds"},
      {"node_link_shared", cluster.node_link_shared, ""},
      {"call_seconds", cluster.call_seconds, concat(links, ": a message of 256 bytes")},
      {"node_compute_share", cluster.node_compute_share,
       "a collective's time is what it adds to that of products"},
      {"network_compute_share", cluster.node_compute_share, "estimate: as within the node"},
      {"host_memory_bytes", cluster.host_memory, "what the system says"},
  }};
  Json json;
  for (const auto& [key, value, source] : keys) {
    json[key] = source.empty() ? value : sourced(value, source);
  }
  return json;
}

Json json_of(const std::string& name, const KernelPoint& point) {
  Json json = {{"name", name}, {"dtype", name_of(point.dtype)}, {"busy_ranks", point.busy_ranks}};
  if (point.m > 0) {
    json["m"] = point.m;
    json["n"] = point.n;
    json["k"] = point.k;
  } else {
    json[point.in_flops ? "flops" : "bytes"] = point.work;
  }
  json["seconds"] = point.seconds;
  return json;
}

// Adds an array with one object in each line.
void add_lines(std::string& text, const char* key, const std::vector<Json>& objects) {
  text += concat(",\n  \"", key, "\": [");
  for (size_t i = 0; i < objects.size(); ++i) {
    text += concat(i == 0 ? "\n    " : ",\n    ", objects[i].dump());
  }
  text += "\n  ]";
}

}  // namespace

std::string file_text(const Cluster& cluster) {
  std::string text = header_of(cluster).dump(2);
  text.resize(text.rfind('\n'));  // the closing brace comes last
  std::vector<Json> points;
  for (const MeasuredKernel& kernel : cluster.kernels) {
    for (const KernelPoint& point : kernel.points) points.push_back(json_of(kernel.name, point));
  }
  add_lines(text, "kernels", points);
  std::vector<Json> collectives;
  for (const CollectivePoint& p : cluster.collectives) {
    collectives.push_back({{"name", name_of(p.collective)},
                           {"ranks", p.num_ranks},
                           {"bytes", p.bytes},
                           {"seconds", p.seconds}});
  }
  if (!collectives.empty()) add_lines(text, "collectives", collectives);
  return text + "\n}\n";
}

}  // namespace ladder
