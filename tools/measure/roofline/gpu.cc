#include "tools/measure/roofline/gpu.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/emulator/registers.h"
#include "kernels/kernel.h"

namespace ladder::roofline {
namespace {

using emulator::Counts, emulator::Profile, emulator::ProductCall;

constexpr std::array<Gpu, 3> kGpus = {{
    {"a100", 312e12, 19.5e12, 2.039e12, 108, 1.41e9, 0.50, 164 << 10, 40 << 20, "a100"},
    {"h100", 989e12, 66.9e12, 3.35e12, 132, 1.83e9, 0.28, 228 << 10, 50 << 20, "h100"},
    {"h200", 989e12, 66.9e12, 4.8e12, 132, 1.83e9, 0.28, 228 << 10, 50 << 20, "h100"},
}};

// Returns by how much longer `parts` equal parts take than if they could be divided at will.
double unevenness(const Gpu& gpu, double parts) {
  const double each = parts / number_of(gpu.multiprocessors);
  return each > 0 ? std::ceil(each) / each : 1;
}

Time slowest(std::initializer_list<Time> times) {
  return *std::ranges::max_element(times, {}, &Time::seconds);
}

Time time_of_product(const Gpu& gpu, const ProductCall& product, DType dtype) {
  const double m = number_of(product.m), n = number_of(product.n), k = number_of(product.k);
  const double peak = size_of(dtype) == 2 ? gpu.tensor_flops : gpu.flops;
  const double tile = number_of(kProductTile), tiles = std::ceil(m / tile) * std::ceil(n / tile);
  const double memory = kMemoryPart * gpu.bytes_per_second;
  const double factors = (m * k + k * n) * number_of(product.factor_bytes);
  const double results =
      m * n * number_of(product.result_bytes) * number_of(1 + product.more_results);
  const double at_once = 2 * m * n * k / ((product.has_gelu ? kGeluPart : kProductPart) * peak);
  double least = at_once * unevenness(gpu, tiles);
  for (double parts = 2; parts <= 16; parts *= 2) {
    const double sums = 2 * parts * m * n * sizeof(float) / memory;
    least = std::min(least, at_once * unevenness(gpu, tiles * parts) + sums);
  }
  return slowest({{least, "products"}, {(factors + results) / memory, "memory"}});
}

Time time_of_kernel(const Gpu& gpu, const Profile& profile) {
  const Counts& counts = profile.counts;
  const double memory = kMemoryPart * gpu.bytes_per_second;
  const double cycles = number_of(gpu.multiprocessors) * gpu.clock;
  Time time = slowest(
      {{counts.memory_sectors * number_of(emulator::kSectorBytes) / memory, "memory"},
       {counts.global_sectors * number_of(emulator::kSectorBytes) / (kCacheBytesPerCycle * cycles),
        "cache"},
       {counts.tensor_flops / (gpu.attention_part * gpu.tensor_flops), "tensor cores"},
       {counts.fused_flops / (kFusedPart * gpu.flops), "multiply-add"},
       {counts.special_functions / (kSpecialPerCycle * cycles), "exp"},
       {counts.shared_cycles / (kSharedPerCycle * cycles), "shared memory"}});
  time.seconds *= unevenness(gpu, profile.blocks);
  return time;
}

}  // namespace

std::span<const Gpu> gpus() { return kGpus; }

std::size_t most_blocks(const Gpu& gpu, const Profile& profile) {
  const emulator::DeviceModel& model = emulator::model_named(gpu.emulated);
  const std::size_t warps = (profile.threads + 31) / 32;
  const std::size_t registers =
      emulator::registers_of_block(profile.threads, emulator::registers_of(profile.name, model));
  return std::min({kBlocksOfMultiprocessor, kWarpsOfMultiprocessor / warps,
                   gpu.shared_bytes / (profile.shared_bytes + kSharedBytesOfCuda),
                   registers == 0 ? kBlocksOfMultiprocessor : model.registers / registers});
}

double most_occupancy(const Gpu& gpu, const Profile& profile) {
  if (profile.kind == Profile::Kind::product || profile.threads == 0) return 0;
  const std::size_t warps = (profile.threads + 31) / 32;
  const double given = std::ceil(profile.blocks / number_of(gpu.multiprocessors));
  const double blocks = std::min(number_of(most_blocks(gpu, profile)), given);
  return blocks * number_of(warps) / number_of(kWarpsOfMultiprocessor);
}

emulator::GpuCache cache_of(const Gpu& gpu) {
  const double bytes = kCachePart * number_of(gpu.cache_bytes);
  return {static_cast<std::size_t>(bytes), [&gpu](const Profile& profile) {
            return gpu.multiprocessors * most_blocks(gpu, profile);
          }};
}

Time time_of(const Gpu& gpu, const Profile& profile, DType dtype) {
  Time time = profile.kind == Profile::Kind::product ? time_of_product(gpu, profile.product, dtype)
                                                     : time_of_kernel(gpu, profile);
  time.seconds += kLaunchSeconds;
  return time;
}

}  // namespace ladder::roofline
