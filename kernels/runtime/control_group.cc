#include "kernels/runtime/control_group.h"

#include <algorithm>
#include <fstream>

namespace ladder {

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,memory:/path", "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first, second - first + 1);
    std::ranges::replace(controllers, ':', ',');
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (is_version_2 ? "" : "/" + controller);
    const int version = is_version_2 ? 2 : 1;
    // In a container the path may be that of the host; then only the last group is mounted, as the
    // root.
    groups.push_back({mount, version});
    for (std::string path = line.substr(second + 1); path.size() > 1;
         path.erase(path.find_last_of('/'))) {
      groups.push_back({mount + path, version});
    }
  }
  return groups;
}

std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

}  // namespace ladder
