#include "common/cluster/cluster_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/cluster/cluster_json.h"

namespace ladder {
namespace {

using Json = nlohmann::json;

// Which files must have a key, or may have it.
enum class Needed { always, gpu, optional };

struct Field {
  const char* key;
  NumberRange range;
  Needed needed;
  void (*set)(Cluster&, double);
};

template <DType dtype>
void set_flops(Cluster& cluster, double number) {
  cluster.product_flops[static_cast<size_t>(dtype)] = number;
}

template <auto member>
void store(Cluster& cluster, double number) {
  cluster.*member = static_cast<std::decay_t<decltype(cluster.*member)>>(number);
}
template <auto link, auto member>
void store(Cluster& cluster, double number) {
  cluster.*link.*member = number;
}

using enum NumberRange;
using enum Needed;

// All keys with numbers. A later one may change what an earlier one has set.
constexpr Field kFields[] = {
    {"devices_per_node", count, optional, store<&Cluster::devices_per_node>},
    {"nodes", count, optional, store<&Cluster::num_nodes>},
    {"device_memory_bytes", count, gpu, store<&Cluster::device_memory>},
    {"multiprocessors", count, gpu, store<&Cluster::multiprocessors>},
    {"fp32_product_flops", rate, always, set_flops<DType::fp32>},
    {"fp64_product_flops", rate, optional, set_flops<DType::fp64>},
    {"bf16_product_flops", rate, optional, set_flops<DType::bf16>},
    {"fp16_product_flops", rate, optional, set_flops<DType::fp16>},
    {"product_efficiency", part, always,
     [](Cluster& c, double v) { c.product_efficiency.fill(v); }},
    {"fp32_product_efficiency", part, optional,
     [](Cluster& c, double v) {
       c.product_efficiency[static_cast<size_t>(DType::fp32)] = v;
       c.product_efficiency[static_cast<size_t>(DType::fp64)] = v;
     }},
    {"attention_forward_efficiency", part, always, store<&Cluster::attention_forward_efficiency>},
    {"attention_backward_efficiency", part, always, store<&Cluster::attention_backward_efficiency>},
    // That of the forward; the backward's keeps its ratio to it.
    {"attention_efficiency", part, optional,
     [](Cluster& c, double v) {
       c.attention_backward_efficiency *= v / c.attention_forward_efficiency;
       c.attention_forward_efficiency = v;
     }},
    {"vector_flops", rate, always, store<&Cluster::vector_flops>},
    {"memory_bandwidth", rate, always, store<&Cluster::memory_bandwidth>},
    {"memory_efficiency", part, always, store<&Cluster::memory_efficiency>},
    {"launch_seconds", seconds, always, store<&Cluster::launch_seconds>},
    {"least_kernel_seconds", seconds, always, store<&Cluster::least_kernel_seconds>},
    {"node_link_bandwidth", rate, always, store<&Cluster::node_link, &Link::bandwidth>},
    {"node_link_efficiency", part, always, store<&Cluster::node_link, &Link::efficiency>},
    {"node_link_latency", seconds, always, store<&Cluster::node_link, &Link::latency>},
    {"network_efficiency", part, optional,
     [](Cluster& c, double v) {
       c.network.efficiency = v;
       c.network_points.clear();
     }},
    {"network_latency", seconds, optional, store<&Cluster::network, &Link::latency>},
    {"call_seconds", seconds, always, store<&Cluster::call_seconds>},
    {"node_compute_share", share, always, store<&Cluster::node_compute_share>},
    {"network_compute_share", share, always, store<&Cluster::network_compute_share>},
    {"host_link_bandwidth", rate, gpu, store<&Cluster::host_link, &Link::bandwidth>},
    {"host_link_efficiency", part, gpu, store<&Cluster::host_link, &Link::efficiency>},
    {"host_link_latency", seconds, gpu, store<&Cluster::host_link, &Link::latency>},
    {"host_memory_bytes", count, always, store<&Cluster::host_memory>},
    {"host_memory_bandwidth", rate, gpu, store<&Cluster::host_memory_bandwidth>},
    {"host_memory_efficiency", part, gpu, store<&Cluster::host_memory_efficiency>},
    {"host_flops", rate, gpu, store<&Cluster::host_flops>},
};

// The one that is true or false.
constexpr const char* kNodeLinkShared = "node_link_shared";

// The efficiencies of the network by the number of nodes.
constexpr const char* kNetworkPoints = "network_efficiencies";

// The keys with other values than these.
constexpr const char* kOtherKeys[] = {"like",        "device",       "kind",
                                      "chip",        "network",      "kernels",
                                      "collectives", kNetworkPoints, kNodeLinkShared};

KernelPoint kernel_point(const Json& json, const ClusterFileContext& context) {
  check_keys(json, {"name", "dtype", "busy_ranks", "m", "n", "k", "flops", "bytes", "seconds"},
             context);
  constexpr std::array kDTypes = {DType::fp32, DType::fp64, DType::int32, DType::bf16, DType::fp16};
  KernelPoint point = {.dtype = choice_of(json, "dtype", kDTypes, context)};
  point.busy_ranks = whole(number_in(json, "busy_ranks", NumberRange::count, context));
  point.seconds = number_in(json, "seconds", NumberRange::positive, context);
  const bool extents = json.contains("m"), flops = json.contains("flops");
  if (extents + flops + json.contains("bytes") != 1) {
    refuse(context, "kernels", "expected m, n, k or flops or bytes in each, got ", shown(json));
  }
  if (extents) {
    point.m = whole(number_in(json, "m", NumberRange::count, context));
    point.n = whole(number_in(json, "n", NumberRange::count, context));
    point.k = whole(number_in(json, "k", NumberRange::count, context));
  } else {
    point.work = number_in(json, flops ? "flops" : "bytes", NumberRange::rate, context);
    point.in_flops = flops;
  }
  return point;
}

// Sorts the points of a kernel and throws if they do not fit together.
void order(MeasuredKernel& kernel, const ClusterFileContext& context) {
  auto& [name, points] = kernel;
  const auto key = [](const KernelPoint& p) {
    return std::tuple(p.dtype, p.busy_ranks, p.work, p.m, p.n, p.k);
  };
  std::ranges::sort(points, {}, key);
  if (std::ranges::adjacent_find(points, {}, key) != points.end()) {
    refuse(context, "kernels", "two points of ", quoted_name(name), " have the same work");
  }
  const auto num = [&](bool in_flops) {
    return std::ranges::count_if(
        points, [&](const auto& p) { return p.work > 0 && p.in_flops == in_flops; });
  };
  if (num(true) > 0 && num(false) > 0) {
    refuse(context, "kernels", quoted_name(name), " has points in flops and points in bytes");
  }
}

void parse_kernels(Cluster& cluster, const Json& json, const ClusterFileContext& context) {
  for (const Json& object : objects_of(json, "kernels", context)) {
    const std::string name = text_of(object, "name", context);
    auto kernel = std::ranges::lower_bound(cluster.kernels, name, {}, &MeasuredKernel::name);
    if (kernel == cluster.kernels.end() || kernel->name != name) {
      kernel = cluster.kernels.insert(kernel, {.name = name, .points = {}});
    }
    kernel->points.push_back(kernel_point(object, context));
  }
  for (MeasuredKernel& kernel : cluster.kernels) order(kernel, context);
}

void parse_collectives(Cluster& cluster, const Json& json, const ClusterFileContext& context) {
  constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter,
                                       Collective::all_gather, Collective::broadcast,
                                       Collective::reduce,     Collective::all_to_all,
                                       Collective::barrier};
  for (const Json& object : objects_of(json, "collectives", context)) {
    check_keys(object, {"name", "ranks", "bytes", "seconds"}, context);
    cluster.collectives.push_back(
        {.collective = choice_of(object, "name", kCollectives, context),
         .num_ranks = whole(number_in(object, "ranks", NumberRange::count, context)),
         .bytes = number_in(object, "bytes", NumberRange::rate, context),
         .seconds = number_in(object, "seconds", NumberRange::positive, context)});
  }
  const auto key = [](const CollectivePoint& p) {
    return std::tuple(p.collective, p.num_ranks, p.bytes);
  };
  std::ranges::sort(cluster.collectives, {}, key);
  if (std::ranges::adjacent_find(cluster.collectives, {}, key) != cluster.collectives.end()) {
    refuse(context, "collectives", "two points have the same name, ranks and bytes");
  }
}

// On a CPU the device is the host.
void share_host(Cluster& cluster) {
  cluster.host_memory_bandwidth = cluster.memory_bandwidth;
  cluster.host_memory_efficiency = cluster.memory_efficiency;
  cluster.host_flops = cluster.vector_flops;
  // A copy reads and writes.
  cluster.host_link = {.bandwidth = cluster.memory_bandwidth / 2,
                       .efficiency = cluster.memory_efficiency};
}

}  // namespace

void set_values(Cluster& cluster, const Json& json, const ClusterFileContext& context) {
  for (const auto& [key, range, needed, set] : kFields) {
    if (!json.contains(key)) continue;
    if (needed == Needed::gpu && cluster.is_cpu) refuse(context, key, "is for GPUs only");
    set(cluster, number_in(json, key, range, context));
  }
}

Cluster parse_cluster(const Json& json, const ClusterFileContext& context) {
  std::set<std::string> known(std::begin(kOtherKeys), std::end(kOtherKeys));
  for (const Field& field : kFields) known.insert(field.key);
  check_keys(json, known, context);
  const bool inherits = json.contains("like");
  Cluster cluster = inherits ? context.like(text_of(json, "like", context)) : Cluster{};
  if (!inherits || json.contains("device")) cluster.device = text_of(json, "device", context);
  if (!inherits || json.contains("kind")) {
    const std::string kind = text_of(json, "kind", context);
    if (kind != "cpu" && kind != "gpu") refuse(context, "kind", "expected cpu or gpu");
    if (inherits && cluster.is_cpu != (kind == "cpu"))
      refuse(context, "kind", "is not that of like");
    cluster.is_cpu = kind == "cpu";
  }
  if (!inherits || json.contains("network")) {
    context.join(cluster, text_of(json, "network", context));
  }
  if (json.contains("chip")) cluster.chip = text_of(json, "chip", context);
  for (const auto& [key, range, needed, set] : kFields) {
    const bool must = needed == Needed::always || (needed == Needed::gpu && !cluster.is_cpu);
    if (must && !inherits && !json.contains(key)) refuse(context, key, "is missing");
  }
  set_values(cluster, json, context);
  if (json.contains(kNodeLinkShared)) {
    cluster.node_link_shared = switch_in(json, kNodeLinkShared, context);
  }
  if (json.contains(kNetworkPoints)) {
    cluster.network_points = network_points_in(json, kNetworkPoints, context);
  }
  ClusterFileContext measured = context;
  measured.sources_required = false;  // all of them were measured together
  parse_kernels(cluster, json, measured);
  parse_collectives(cluster, json, measured);
  if (cluster.is_cpu) share_host(cluster);
  return cluster;
}

}  // namespace ladder
