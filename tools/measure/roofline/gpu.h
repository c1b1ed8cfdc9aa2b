// GPUs, and how long a kernel would take on them: a roofline [Williams, Waterman, Patterson 2009].
//
// It is predicted that a kernel takes as long as the slowest of what it needs: memory, tensor
// cores, and so on, each at its greatest rate times a part that well-made kernels reach. Rates are
// NVIDIA's. The parts are assumptions, on the side of caution; they stand here, and programs print
// them with their tables.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/emulator/profiler/profiler.h"
#include "kernels/runtime/dtype.h"

namespace ladder::roofline {

struct Gpu {
  std::string_view name;
  double tensor_flops;      // a second, in bf16 and fp16, without sparsity
  double flops;             // a second, in fp32, without tensor cores
  double bytes_per_second;  // of its memory
  std::size_t multiprocessors;
  double clock;               // cycles a second
  double attention_part;      // what kernels with mma.sync reach of tensor_flops; H100: measured
  std::size_t shared_bytes;   // of a multiprocessor
  std::size_t cache_bytes;    // of the cache (L2) that all multiprocessors share
  std::string_view emulated;  // what the emulator calls a GPU with the same limits
};

// A100 of 80 GB, H100 and H200, all SXM. From their data sheets and white papers; the clock is the
// one with which tensor_flops was computed.
std::span<const Gpu> gpus();

inline constexpr double kProductPart = 0.80;  // of tensor_flops: large products of cuBLAS
// The same where the product computes a GELU or its gradient: on an H100 two shapes of GPT-2 124M
// reached 460 and 487 TFLOP/s, without GELU 663 (cuBLAS 13.0).
inline constexpr double kGeluPart = 0.48;
inline constexpr double kMemoryPart = 0.90;  // of bytes_per_second
inline constexpr double kFusedPart = 0.70;   // of flops: multiply-add without tensor cores
// The cache is as good as one of half its size that always drops what was used least recently.
// (That of an A100 and an H100 has two halves, and some data is in both.) It gives each
// multiprocessor 24 bytes a cycle. NVIDIA says 47 for an A100.
inline constexpr double kCachePart = 0.50, kCacheBytesPerCycle = 24;
// Of one multiprocessor, in a cycle: functions such as exp, and cycles of shared memory as
// profiler.h counts them.
inline constexpr double kSpecialPerCycle = 16;
inline constexpr double kSharedPerCycle = 1;
inline constexpr double kLaunchSeconds = 2e-6;  // between two kernels of a stream
// cuBLAS gives each thread block a tile of the result of so many rows and columns.
inline constexpr std::size_t kProductTile = 128;

// What a multiprocessor of these GPUs holds at once, besides registers (kernels/emulator). Of its
// shared memory CUDA keeps some for each thread block. [CUDA C++ Programming Guide, technical
// specifications per compute capability]
inline constexpr std::size_t kWarpsOfMultiprocessor = 64, kBlocksOfMultiprocessor = 32;
inline constexpr std::size_t kSharedBytesOfCuda = 1024;

// Returns how many of the launch's thread blocks a multiprocessor can hold at most. Threads,
// registers, shared memory and the number of thread blocks limit them.
std::size_t most_blocks(const Gpu& gpu, const emulator::Profile& profile);

// Returns the occupancy of a launch at most: the part of the warps that the busiest multiprocessor
// can hold and that it has. 0 for a product.
double most_occupancy(const Gpu& gpu, const emulator::Profile& profile);

// Returns the GPU's cache as far as it counts. REQUIRES: `gpu` lives as long as the profiler that
// is given it.
emulator::GpuCache cache_of(const Gpu& gpu);

struct Time {
  double seconds;
  std::string_view bound;  // what takes that long
};

// Returns how long a launch, or a product of the dtype, takes.
//
// Thread blocks are shared out evenly: with n of them on s multiprocessors, the busiest one has
// ceil(n / s), and the launch takes as long as if there were s * ceil(n / s). Tiles of products are
// shared out in the same way. A product may be split along its sum, into 2 to 16 parts, where that
// is faster; the parts' sums in fp32 are then written and read.
Time time_of(const Gpu& gpu, const emulator::Profile& profile, DType dtype);

}  // namespace ladder::roofline
