// How much memory this machine, and the limits that this process was started under, still have.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// Bytes that this process and its children can still take: the least of MemAvailable in
// /proc/meminfo and, for the memory control group of this process and each group around it, its
// limit less what it holds for good (a container, a SLURM job and systemd all set such limits).
// Cached files that the kernel gives back when asked do not count as held. 0 if nothing says.
//
// `root` stands before /proc and /sys: "" on a machine. Groups of version 1 and 2 are read
// (kernel.org: cgroup-v1/memory, cgroup-v2).
size_t free_host_memory(const std::string& root = "");

}  // namespace ladder
