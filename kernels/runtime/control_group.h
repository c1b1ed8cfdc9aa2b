// The control groups around a process, by which a container, a SLURM job or systemd limits it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

// A control group's folder. The names of its files depend on the version of the interface, 1 or 2
// (kernel.org: cgroup-v1, cgroup-v2).
struct ControlGroup {
  std::string folder;
  int version = 2;
};

// Returns the groups that may limit what `controller`, such as "memory", shares out to this
// process: its own group and each group around it. Some of the folders may not exist. `root` is put
// before /proc and /sys; it is empty except in tests.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root);

// Returns the number at the beginning of a file, or nothing if there is no such file or if it
// begins with a word, such as "max".
std::optional<size_t> number_in(const std::string& path);

}  // namespace ladder
