#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/cluster/cluster_file.h"
#include "common/cluster/cluster_json.h"

namespace ladder {
namespace {

// The keys of a cluster that a program's file may have, too: they depend on whose kernels run.
const std::set<std::string> kClusterKeys = {"product_efficiency", "memory_efficiency",
                                            "attention_efficiency", "launch_seconds",
                                            "least_kernel_seconds"};

// The keys that only it has.
constexpr std::pair<const char*, double OtherProgram::*> kNumbers[] = {
    {"attention_forward_score_bytes", &OtherProgram::attention_forward_score_bytes},
    {"attention_backward_score_bytes", &OtherProgram::attention_backward_score_bytes}};
constexpr std::pair<const char*, bool OtherProgram::*> kSwitches[] = {
    {"recomputes_attention", &OtherProgram::recomputes_attention},
    {"host_waits_for_passes", &OtherProgram::host_waits_for_passes}};
constexpr const char* kInstead = "instead_of";

std::set<std::string> keys_of_values() {
  std::set<std::string> keys = kClusterKeys;
  for (const auto& [key, member] : kNumbers) keys.insert(key);
  for (const auto& [key, member] : kSwitches) keys.insert(key);
  keys.insert(kInstead);
  return keys;
}

// Takes what json[kInstead] says, an object of {"kernel": {"launches": 2, "more_bytes": 3.5,
// "source": "where both are from"}}. Kernels that it does not name stay as they are.
void take_kernels(std::vector<KernelsInstead>& kernels, const Json& json,
                  const ClusterFileContext& context) {
  const Json& object = json.at(kInstead);
  if (!object.is_object()) refuse(context, kInstead, "expected an object");
  ClusterFileContext of_kernel = context;
  of_kernel.sources_required = false;  // one for both numbers
  for (const auto& [name, values] : object.items()) {
    if (!values.is_object()) refuse(context, name, "expected an object");
    of_kernel.where = concat(context.where, ": ", name);
    check_keys(values, {"launches", "more_bytes", "source"}, of_kernel);
    if (context.sources_required) text_of(values, "source", of_kernel);
    std::erase_if(kernels, [&](const auto& other) { return other.kernel == name; });
    KernelsInstead& kernel = kernels.emplace_back(KernelsInstead{.kernel = name});
    if (values.contains("launches")) {
      kernel.launches = number_in(values, "launches", NumberRange::count, of_kernel);
    }
    if (values.contains("more_bytes")) {
      kernel.more_bytes = number_in(values, "more_bytes", NumberRange::positive, of_kernel);
    }
  }
  std::ranges::sort(kernels, {}, &KernelsInstead::kernel);
}

void set_program_values(Cluster& cluster, const Json& json, const ClusterFileContext& context) {
  set_values(cluster, json, context);
  OtherProgram& program = cluster.program;
  for (const auto& [key, member] : kNumbers) {
    if (json.contains(key)) program.*member = number_in(json, key, NumberRange::positive, context);
  }
  if (json.contains(kNumbers[0].first) != json.contains(kNumbers[1].first)) {
    refuse(context, kNumbers[0].first, "and ", kNumbers[1].first, " go together");
  }
  for (const auto& [key, member] : kSwitches) {
    if (json.contains(key)) program.*member = switch_in(json, key, context);
  }
  if (json.contains(kInstead)) take_kernels(program.kernels, json, context);
}

}  // namespace

void apply_program(Cluster& cluster, const Json& json, const ClusterFileContext& context,
                   const std::function<void(const std::string&)>& like) {
  const std::set<std::string> of_values = keys_of_values();
  std::set<std::string> known = of_values;
  known.insert({"about", "like", "devices"});
  check_keys(json, known, context);
  const std::string about = text_of(json, "about", context);
  const Json devices = json.value("devices", Json::object());
  if (!devices.is_object()) refuse(context, "devices", "expected an object");
  const std::string key = devices.contains(cluster.like) ? cluster.like : cluster.chip;
  if (json.contains("devices") && !devices.contains(key)) {
    std::vector<std::string> names;
    for (const auto& [name, values] : devices.items()) names.push_back(name);
    refuse(context, "devices", "has ", listed(names), ", not ", cluster.device);
  }
  if (json.contains("like")) like(text_of(json, "like", context));
  cluster.program.about = about;
  set_program_values(cluster, json, context);
  if (!json.contains("devices")) return;
  cluster.program.device = key;
  if (!devices.at(key).is_object()) refuse(context, key, "expected an object");
  check_keys(devices.at(key), of_values, context);
  set_program_values(cluster, devices.at(key), context);
}

}  // namespace ladder
