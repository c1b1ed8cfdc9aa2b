// How long a kernel would take on a GPU: a roofline [Williams, Waterman, Patterson 2009].
//
// It is predicted that a kernel takes as long as the slowest of what it needs: memory, units that
// compute, and the issue of instructions, each at its greatest rate times a part that well-made
// kernels reach. Rates and most parts are those of the device's file (common/cluster/devices). What
// only a count of instructions needs stands here. Programs print what is assumed with their tables.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/cluster/cluster.h"
#include "kernels/emulator/profiler/profiler.h"

namespace ladder::roofline {

// Returns a device of common/cluster. Throws a UserError if there is none with this name, or if its
// file lacks what is needed here.
Cluster read_gpu(const std::string& name);

// How many times as long a product takes that computes a GELU or its gradient, too. Measured, since
// cuBLAS' machine code is not in the table of instructions: on an H100 two shapes of GPT-2 124M
// reached 460 and 487 TFLOP/s, without GELU 663 (cuBLAS 13.0).
inline constexpr double kGeluSlowdown = 1.40;
// Of the rate in fp32 without tensor cores: multiply-add outside of products.
inline constexpr double kFusedPart = 0.70;
// The cache is as good as one of half its size that always drops what was used least recently.
// (That of an A100 and an H100 has two halves, and some data is in both.) It gives each
// multiprocessor 24 bytes a cycle. NVIDIA says 47 for an A100.
inline constexpr double kCachePart = 0.50, kCacheBytesPerCycle = 24;
// Of one multiprocessor, in a cycle: functions such as exp, and cycles of shared memory as
// profiler.h counts them.
inline constexpr double kSpecialPerCycle = 16;
inline constexpr double kSharedPerCycle = 1;
// Instructions that a multiprocessor starts in a cycle, one of a warp by each of its four
// schedulers. A bound, which no kernel here comes near to: warps wait. [NVIDIA H100 Tensor Core GPU
// Architecture, white paper 2022]
inline constexpr double kIssuePerCycle = 4;

// What a multiprocessor of these GPUs holds at once, besides registers (kernels/emulator). Of its
// shared memory CUDA keeps some for each thread block, so one alone is given so much less. [CUDA
// C++ Programming Guide, technical specifications per compute capability]
inline constexpr std::size_t kWarpsOfMultiprocessor = 64, kBlocksOfMultiprocessor = 32;
inline constexpr std::size_t kSharedBytesOfCuda = 1024;

// Returns how many of the launch's thread blocks a multiprocessor can hold at most. Threads,
// registers, shared memory and the number of thread blocks limit them.
std::size_t most_blocks(const Cluster& gpu, const emulator::Profile& profile);

// Returns the occupancy of a launch at most: the part of the warps that the busiest multiprocessor
// can hold and that it has. 0 for a product.
double most_occupancy(const Cluster& gpu, const emulator::Profile& profile);

// Returns the GPU's cache as far as it counts. REQUIRES: `gpu` lives as long as the profiler that
// is given it.
emulator::GpuCache cache_of(const Cluster& gpu);

struct Time {
  double seconds;
  std::string_view bound;  // what takes that long
  // The least that each would take alone: memory and the cache; tensor cores, other arithmetic and
  // shared memory; the issue of instructions, 0 if these are not known.
  double memory = 0, units = 0, issue = 0;
  double instructions = 0;  // instructions_of() the launch
};

// Returns how many instructions the warps of a launch execute, in all: by instructions.h, with an
// H100's machine code also for other GPUs. 0 for a product, and for a kernel that the table lacks.
double instructions_of(const emulator::Profile& profile);

// Returns how long a launch, or a product of the dtype, takes. A product takes what
// product_efficiency() says (common/cluster/kernel_time.h).
//
// Thread blocks are shared out evenly: with n of them on s multiprocessors, the busiest one has
// ceil(n / s), and the launch takes as long as if there were s * ceil(n / s).
Time time_of(const Cluster& gpu, const emulator::Profile& profile, DType dtype);

}  // namespace ladder::roofline
