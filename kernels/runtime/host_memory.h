// Finds out how much memory this process may still take.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// Returns the bytes that this process and its children can still take, or 0 if that is not known.
// It is the smallest of MemAvailable in /proc/meminfo and the room in the process's memory control
// group and in each group around it (a container, a SLURM job and systemd set such limits). A
// group's room is its limit minus what it uses; cached files, which the kernel can give back, do
// not count as used.
//
// `root` is put before /proc and /sys. It is empty except in tests.
size_t free_host_memory(const std::string& root = "");

}  // namespace ladder
