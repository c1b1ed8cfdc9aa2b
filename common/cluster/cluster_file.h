// Reads what a file says of a cluster. notes/clusters.md describes the format.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/cluster/cluster.h"

namespace ladder {

// What a file needs from outside.
struct ClusterFileContext {
  std::string where = {};                                       // the file, for messages
  bool sources_required = false;                                // each number must have its source
  std::function<Cluster(const std::string&)> like = {};         // returns a known device for "like"
  std::function<void(Cluster&, const std::string&)> join = {};  // sets the network by its name
};

// Returns the cluster that a file's JSON object describes. `name` is not set. Throws a UserError of
// one line, which begins with `where`, if a key is unknown or missing, or a value is not what it
// has to be.
Cluster parse_cluster(const nlohmann::json& json, const ClusterFileContext& context);

// Sets the numbers that the object has keys for. Throws a UserError as parse_cluster() does.
void set_values(Cluster& cluster, const nlohmann::json& json, const ClusterFileContext& context);

// Sets what the JSON object of a program's file says of this cluster: first the values of the known
// program that it is "like", by `like`, then those for all devices, then those for cluster.like
// or, without them, for cluster.chip. Throws a UserError as parse_cluster() does, and if the file
// has values for other devices, but none for this one.
void apply_program(Cluster& cluster, const nlohmann::json& json, const ClusterFileContext& context,
                   const std::function<void(const std::string&)>& like);

// Returns the points of json[key], an array of {"nodes": count, "efficiency": part}, sorted; none
// if the key is missing. The array may come with its source. Throws a UserError if it is something
// else.
std::vector<NetworkPoint> network_points_in(const nlohmann::json& json, const char* key,
                                            const ClusterFileContext& context);

// Returns the number of json[key], which is a number or {"value": number, "source": text}. Throws a
// UserError if it is missing or something else.
double parse_number(const nlohmann::json& json, const std::string& key,
                    const ClusterFileContext& context);

}  // namespace ladder
