// Ranks beside their GPUs: on the CPUs of the NUMA node that a GPU is attached to.
#pragma once

#include <string>
#include <vector>

namespace ladder {

// Returns the CPUs of the NUMA node to which the PCI device is attached, in ascending order. Empty
// if the machine does not say, as where it has one node. `bus_id` is CUDA's, such as
// "0000:1B:00.0". `sysfs` is where Linux describes the machine: of a device the file
// bus/pci/devices/ID/numa_node, of a node devices/system/node/nodeN/cpulist.
std::vector<int> cpus_beside(const std::string& bus_id, const std::string& sysfs = "/sys");

// Keeps the calling thread, and those that it starts from now on, on those of `cpus` that it may
// use. Memory that they first write then lies on their node. Returns whether anything has changed:
// nothing does if the thread is kept to some of these CPUs already, by mpirun, a scheduler or
// taskset, or to none of them.
bool keep_on(const std::vector<int>& cpus);

}  // namespace ladder
