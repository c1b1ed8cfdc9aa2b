#include "common/comm/numa.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace ladder {

std::vector<int> cpus_beside(const std::string& bus_id, const std::string& sysfs) {
  std::string id = bus_id;  // Linux writes its letters small
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::tolower(c); });
  int node = -1;
  std::ifstream(sysfs + "/bus/pci/devices/" + id + "/numa_node") >> node;
  std::vector<int> cpus;
  if (node < 0) return cpus;
  std::ifstream file(sysfs + "/devices/system/node/node" + std::to_string(node) + "/cpulist");
  // Numbers and ranges, such as 0-3,8-11.
  for (std::string range; std::getline(file, range, ',');) {
    std::istringstream text(range);
    int first = 0, last = 0;
    if (!(text >> first)) continue;
    if (text.get() != '-' || !(text >> last)) last = first;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

bool keep_on(const std::vector<int>& cpus) {
  cpu_set_t allowed, kept;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  CPU_ZERO(&kept);
  for (int cpu : cpus) {
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &kept);
  }
  if (CPU_COUNT(&kept) == 0 || CPU_EQUAL(&kept, &allowed)) return false;
  return sched_setaffinity(0, sizeof kept, &kept) == 0;
}

}  // namespace ladder
