// What programs print of clusters and of what simulations take from their files.
#pragma once

#include <cstddef>
#include <string>

#include "common/cluster/cluster.h"

namespace ladder {

// Return what --cluster list and --program list print: each known device and program with what it
// is, and how clusters are named.
std::string cluster_list();
std::string program_list();

// Returns a line of a header: what a simulation takes as given, and the flag that changes it.
std::string assumption(const std::string& what, const char* flag);
// Returns the lines for what a simulation of `num_ranks` ranks, which compute in `dtype`, takes
// from the files of the device, the network and the program: the user has at most named these.
std::string assumptions(const Cluster& cluster, size_t num_ranks, DType dtype);

}  // namespace ladder
