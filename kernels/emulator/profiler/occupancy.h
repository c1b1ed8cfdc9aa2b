// How many thread blocks of a launch a GPU holds at once. While some of its warps wait for memory,
// others must have work: the more a multiprocessor holds, the more it can hide.
#pragma once

#include <cstddef>

#include "kernels/emulator/device_model.h"
#include "kernels/emulator/profiler/profiler.h"

namespace ladder::emulator {

// Returns how many of the launch's thread blocks a multiprocessor can hold at most. Threads,
// registers, shared memory and the number of thread blocks limit them.
std::size_t most_blocks(const DeviceModel& gpu, const Profile& launch);

// Returns the occupancy of a launch at most: the part of the warps that the busiest multiprocessor
// can hold and that it has.
double most_occupancy(const DeviceModel& gpu, const Profile& launch);

// Returns the GPU's cache as far as it counts. It is as good as one of half its size that always
// drops what was used least recently: that of an A100 and an H100 has two halves, and some data is
// in both. REQUIRES: `gpu` lives as long as the profiler that is given the cache.
GpuCache cache_of(const DeviceModel& gpu);

}  // namespace ladder::emulator
