#include "common/cluster/cluster.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/cluster/cluster_file.h"
#include "common/io/json_file.h"
#include "common/io/printable.h"

extern "C" {
// From clusters.s.
extern const char clusters_json_begin[];
extern const uint64_t clusters_json_bytes;
}

namespace ladder {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostFileBytes = 10'000'000;
constexpr std::string_view kNetworks = "networks", kPrograms = "programs", kOwnProgram = "ladder";

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

// Returns all known devices, each an object, and beside them all networks and all programs.
const Json& known() {
  static const Json json =
      parse_json_object({clusters_json_begin, clusters_json_bytes}, "the known clusters");
  return json;
}

// Removes a whole number from 1 to a million from the front of the text.
std::optional<size_t> take_count(std::string_view& text) {
  size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count == 0 || count > 1'000'000) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return count;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Sets the network KIND-[NICSx]RATEg.
void join_network(Cluster& cluster, const std::string& name, const std::string& where) {
  const Json& networks = known().at(kNetworks);
  std::string kinds;
  for (const auto& [kind, values] : networks.items()) {
    kinds += (kinds.empty() ? "" : " or ") + kind;
    std::string_view rest = name;
    if (!take(rest, kind) || !take(rest, "-")) continue;
    const std::optional<size_t> first = take_count(rest);
    const bool has_nics = first && take(rest, "x");
    const std::optional<size_t> rate = has_nics ? take_count(rest) : first;
    if (!rate || rest != "g") break;
    const ClusterFileContext context = {.where = concat(where, ": ", kind),
                                        .sources_required = true};
    cluster.network_name = name;
    cluster.nics_per_node = has_nics ? *first : 1;
    cluster.network = {.bandwidth = static_cast<double>(*rate) * 1e9 / 8,
                       .efficiency = parse_number(values, "efficiency", context),
                       .latency = parse_number(values, "latency", context)};
    cluster.network_points = network_points_in(values, "efficiencies", context);
    cluster.network_has_fast_ways =
        !values.contains("fast_ways") || values["fast_ways"]["value"].get<bool>();
    return;
  }
  throw UserError(concat(where, ": unknown network ", quoted_name(name), "; expected ", kinds,
                         ", the adapters of a node and the Gbit/s of each, as in eth-10g or "
                         "ib-8x400g"));
}

Cluster known_device(const std::string& device, const std::string& where) {
  const std::vector<std::string> devices = known_devices();
  if (std::ranges::find(devices, device) == devices.end()) {
    throw UserError(concat(where, ": unknown device ", quoted_name(device), "; known are ",
                           listed(devices), "; a path has a slash or ends in .json"));
  }
  const auto join = [&](Cluster& cluster, const std::string& network) {
    join_network(cluster, network, where);
  };
  Cluster cluster =
      parse_cluster(known().at(device), {.where = device, .sources_required = true, .join = join});
  cluster.like = device;
  if (cluster.chip.empty()) cluster.chip = device;
  return cluster;
}

// `within` begins what is said of the program: where another one is like it.
void run_program(Cluster& cluster, const std::string& program, const std::string& within = "") {
  if (!cluster.kernels.empty() && program != kOwnProgram) {
    throw UserError(concat("program ", quoted_name(program), ": ", quoted_name(cluster.name),
                           " has measured kernels, which are the lessons'"));
  }
  const bool is_file = is_path(program);
  const std::string where = concat(within, is_file ? "" : "program ", program);
  const auto like = [&](const std::string& other) {
    if (is_path(other)) throw UserError(program + ": \"like\": expected a known program");
    run_program(cluster, other, where + ": \"like\": ");
  };
  const Json& programs = known().at(kPrograms);
  if (!is_file && !programs.contains(program)) {
    throw UserError(concat(within, "unknown program ", quoted_name(program), "; known are ",
                           listed(known_programs()), "; a path has a slash or ends in .json"));
  }
  apply_program(cluster, is_file ? read_json_object(program, kMostFileBytes) : programs.at(program),
                {.where = where, .sources_required = !is_file}, like);
  cluster.program.name = program;
}

// Removes the known device that a name begins with and returns it. If there is none, removes all.
std::string take_device(std::string_view& name) {
  for (const std::string& device : known_devices()) {
    if (!name.starts_with(device)) continue;
    const std::string_view rest = name.substr(device.size());
    if (!rest.empty() && rest[0] != 'x') continue;
    name = rest;
    return device;
  }
  return std::string(std::exchange(name, {}));
}

Cluster named_cluster(const std::string& name) {
  const std::string where = concat("cluster ", quoted_name(name));
  std::string_view rest = name;
  std::optional<std::string> network;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    network = std::string(rest.substr(at + 1));
    rest = rest.substr(0, at);
  }
  const std::string device = take_device(rest);
  Cluster cluster = known_device(device, where);
  for (size_t* size : {&cluster.devices_per_node, &cluster.num_nodes}) {
    if (rest.empty()) continue;
    const std::optional<size_t> count = take(rest, "x") ? take_count(rest) : std::nullopt;
    if (!count) rest = "?";
    *size = count.value_or(1);
  }
  if (!rest.empty()) {
    throw UserError(concat(where, ": expected DEVICE[xDEVICES[xNODES]][@NETWORK], as in ", device,
                           "x8x4 or ", device, "x8x4@ib-8x400g"));
  }
  if (network) join_network(cluster, *network, where);
  return cluster;
}

}  // namespace

std::vector<std::string> known_devices() {
  std::vector<std::string> names;
  for (const auto& [name, values] : known().items()) {
    if (name != kNetworks && name != kPrograms) names.push_back(name);
  }
  return names;
}

std::vector<std::string> known_programs() {
  std::vector<std::string> names;
  for (const auto& [name, values] : known().at(kPrograms).items()) names.push_back(name);
  return names;
}

Cluster read_cluster(const std::string& name_or_file, const std::string& program) {
  const std::string& name = name_or_file;
  Cluster cluster;
  if (is_path(name)) {
    const auto like = [&](const std::string& device) { return known_device(device, name); };
    const auto join = [&](Cluster& joined, const std::string& network) {
      join_network(joined, network, name);
    };
    cluster = parse_cluster(read_json_object(name, kMostFileBytes),
                            {.where = name, .like = like, .join = join});
  } else {
    cluster = named_cluster(name);
  }
  if (cluster.is_cpu) cluster.device_memory = cluster.host_memory / cluster.devices_per_node;
  cluster.name = name;
  if (!program.empty()) run_program(cluster, program);
  return cluster;
}

std::vector<size_t> Cluster::machine_of(size_t num_ranks) const {
  std::vector<size_t> machines(num_ranks);
  for (size_t rank = 0; rank < num_ranks; ++rank) machines[rank] = node_of(rank);
  return machines;
}

void check_dtype(const Cluster& cluster, DType dtype) {
  const auto has = [&](DType other) {
    return cluster.product_flops[static_cast<size_t>(other)] > 0;
  };
  // Where kernels were measured the rates are not used.
  if (has(dtype) || !cluster.kernels.empty()) return;
  std::vector<std::string> names;
  for (const DType other : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    if (has(other)) names.emplace_back(name_of(other));
  }
  std::string list = names.front();
  for (size_t i = 1; i < names.size(); ++i) {
    list += concat(i + 1 == names.size() ? " and " : ", ", names[i]);
  }
  throw UserError(concat("--dtype ", name_of(dtype), ": ", cluster.device, " has ", list));
}

void check_devices(const Cluster& cluster, size_t num_ranks) {
  if (num_ranks <= cluster.num_devices()) return;
  throw UserError(concat("cluster ", quoted_name(cluster.name), " has ",
                         counted(cluster.num_devices(), "device"), ", fewer than the ",
                         counted(num_ranks, "rank")));
}

}  // namespace ladder
