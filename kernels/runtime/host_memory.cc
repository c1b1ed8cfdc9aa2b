#include "kernels/runtime/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace ladder {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// The names of a control group's files, which depend on the version of the interface.
struct Interface {
  const char* mount;
  const char* limit;
  const char* used;
  const char* inactive_cache;  // a line of memory.stat
};
constexpr Interface kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                 "memory.usage_in_bytes", "total_inactive_file"};
constexpr Interface kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// Returns the number at the beginning of a file, or nothing if there is none, as in "max".
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Returns the number after `name` in a file of lines such as "inactive_file 4096", or 0 if the name
// is not there.
size_t number_beside(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string found;
  size_t number = 0;
  while (file >> found >> number) {
    if (found == name) return number;
  }
  return 0;
}

size_t left_in_group(const std::string& folder, const Interface& files) {
  const std::optional<size_t> limit = number_in(folder + "/" + files.limit);
  if (!limit) return kUnlimited;
  const size_t used = number_in(folder + "/" + files.used).value_or(0);
  const size_t cache = number_beside(folder + "/memory.stat", files.inactive_cache);
  const size_t held = used - std::min(used, cache);
  return *limit - std::min(*limit, held);
}

// Returns the smallest room in the group at `path`, such as "/user.slice/job_7", and in all groups
// around it. In a container the path may be that of the host; then only the last group is mounted,
// as the root.
size_t left_in_groups(const std::string& mount, std::string path, const Interface& files) {
  size_t left = left_in_group(mount, files);
  while (path.size() > 1) {
    left = std::min(left, left_in_group(mount + path, files));
    path.erase(path.find_last_of('/'));
  }
  return left;
}

size_t left_in_all_groups(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  size_t left = kUnlimited;
  for (std::string line; std::getline(file, line);) {  // "4:cpu,memory:/path", "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first, second - first + 1);
    std::ranges::replace(controllers, ':', ',');
    const bool is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find(",memory,") == std::string::npos) continue;
    const Interface& files = is_version_2 ? kVersion2 : kVersion1;
    left = std::min(left, left_in_groups(root + files.mount, line.substr(second + 1), files));
  }
  return left;
}

}  // namespace

size_t free_host_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  size_t kibibytes = 0;
  size_t available = kUnlimited;
  while (file >> name >> kibibytes) {
    std::getline(file, unit);
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  const size_t left = std::min(available, left_in_all_groups(root));
  return left == kUnlimited ? 0 : left;
}

}  // namespace ladder
