#include "kernels/emulator/profiler/occupancy.h"

#include <algorithm>
#include <cmath>

#include "kernels/emulator/registers.h"

namespace ladder::emulator {
namespace {

// What a multiprocessor of an A100 or an H100 holds at once. Of its shared memory CUDA keeps some
// for each thread block, so one alone is given so much less. [CUDA C++ Programming Guide, technical
// specifications per compute capability]
constexpr std::size_t kWarps = 64, kBlocks = 32, kSharedBytesOfCuda = 1024;

std::size_t warps_of_block(const Profile& launch) { return (launch.threads + 31) / 32; }

}  // namespace

std::size_t most_blocks(const DeviceModel& gpu, const Profile& launch) {
  const std::size_t registers = registers_of_block(launch.threads, registers_of(launch.name, gpu));
  return std::min(
      {kBlocks, kWarps / warps_of_block(launch),
       (gpu.shared_bytes_optin + kSharedBytesOfCuda) / (launch.shared_bytes + kSharedBytesOfCuda),
       registers == 0 ? kBlocks : gpu.registers / registers});
}

double most_occupancy(const DeviceModel& gpu, const Profile& launch) {
  const double given = std::ceil(launch.blocks / gpu.multiprocessors);
  const double blocks = std::min(static_cast<double>(most_blocks(gpu, launch)), given);
  return blocks * static_cast<double>(warps_of_block(launch)) / static_cast<double>(kWarps);
}

GpuCache cache_of(const DeviceModel& gpu) {
  return {gpu.cache_bytes / 2, [&gpu](const Profile& launch) {
            return static_cast<std::size_t>(gpu.multiprocessors) * most_blocks(gpu, launch);
          }};
}

}  // namespace ladder::emulator
