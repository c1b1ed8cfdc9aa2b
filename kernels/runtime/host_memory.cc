#include "kernels/runtime/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "kernels/runtime/control_group.h"

namespace ladder {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// The names of a control group's files, which depend on the version of the interface.
struct Interface {
  const char* limit;
  const char* used;
  const char* inactive_cache;  // a line of memory.stat
};
constexpr Interface kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                 "total_inactive_file"};
constexpr Interface kVersion2 = {"memory.max", "memory.current", "inactive_file"};

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

size_t left_in(const ControlGroup& group) {
  const Interface& files = group.version == 1 ? kVersion1 : kVersion2;
  const std::optional<size_t> limit = number_in(group.folder + "/" + files.limit);
  if (!limit) return kUnlimited;
  const size_t used = number_in(group.folder + "/" + files.used).value_or(0);
  const size_t cache = number_beside(group.folder + "/memory.stat", files.inactive_cache);
  const size_t held = used - std::min(used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

size_t free_host_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  size_t kibibytes = 0;
  size_t left = kUnlimited;
  while (file >> name >> kibibytes) {
    std::getline(file, unit);
    if (name == "MemAvailable:") left = kibibytes * 1024;
  }
  for (const ControlGroup& group : control_groups("memory", root)) {
    left = std::min(left, left_in(group));
  }
  return left == kUnlimited ? 0 : left;
}

}  // namespace ladder
