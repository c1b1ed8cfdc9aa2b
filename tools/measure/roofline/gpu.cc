#include "tools/measure/roofline/gpu.h"

#include <algorithm>
#include <cmath>

#include "common/cluster/kernel_time.h"
#include "kernels/emulator/registers.h"
#include "tools/measure/roofline/instructions.h"

namespace ladder::roofline {
namespace {

using emulator::Counts, emulator::Profile, emulator::ProductCall;

double memory_rate(const Cluster& gpu) { return gpu.memory_bandwidth * gpu.memory_efficiency; }

struct Need {
  double seconds;
  std::string_view what;
};

Need slowest(std::initializer_list<Need> needs) {
  return *std::ranges::max_element(needs, {}, &Need::seconds);
}

Time time_of_needs(const Need& memory, const Need& units, const Need& issue) {
  const Need most = slowest({memory, units, issue});
  return {most.seconds, most.what, memory.seconds, units.seconds, issue.seconds};
}

Time time_of_product(const Cluster& gpu, const ProductCall& product, DType dtype) {
  const double m = number_of(product.m), n = number_of(product.n), k = number_of(product.k);
  const double rate = gpu.product_flops[static_cast<size_t>(dtype)] *
                      product_efficiency(gpu, product.m, product.n, product.k, dtype);
  const double factors = (m * k + k * n) * number_of(product.factor_bytes);
  const double results =
      m * n * number_of(product.result_bytes) * number_of(1 + product.more_results);
  return time_of_needs({(factors + results) / memory_rate(gpu), "memory"},
                       {(product.has_gelu ? kGeluSlowdown : 1) * 2 * m * n * k / rate, "products"},
                       {0, "issue"});
}

Time time_of_kernel(const Cluster& gpu, const Profile& profile, DType dtype) {
  const Counts& counts = profile.counts;
  const double cycles = number_of(gpu.multiprocessors) * gpu.clock;
  const double tensor_flops = gpu.product_flops[static_cast<size_t>(dtype)];
  const double instructions = instructions_of(profile);
  Time time = time_of_needs(
      slowest(
          {{counts.memory_sectors * number_of(emulator::kSectorBytes) / memory_rate(gpu), "memory"},
           {counts.global_sectors * number_of(emulator::kSectorBytes) /
                (kCacheBytesPerCycle * cycles),
            "cache"}}),
      slowest({{counts.tensor_flops / (gpu.tensor_core_efficiency * tensor_flops), "tensor cores"},
               {counts.fused_flops / (kFusedPart * gpu.vector_flops), "multiply-add"},
               {counts.special_functions / (kSpecialPerCycle * cycles), "exp"},
               {counts.shared_cycles / (kSharedPerCycle * cycles), "shared memory"}}),
      {instructions / (kIssuePerCycle * cycles), "issue"});
  time.instructions = instructions;
  const double each = profile.blocks / number_of(gpu.multiprocessors);
  if (each > 0) {
    for (double* const part : {&time.seconds, &time.memory, &time.units, &time.issue}) {
      *part *= std::ceil(each) / each;
    }
  }
  return time;
}

}  // namespace

Cluster read_gpu(const std::string& name) {
  Cluster gpu = read_cluster(name);
  if (gpu.clock > 0 && gpu.tensor_core_efficiency > 0 && gpu.cache_bytes > 0 &&
      !gpu.emulated.empty()) {
    return gpu;
  }
  throw UserError(concat("--gpu ", name,
                         ": its file has no clock, tensor_core_efficiency, cache_bytes or "
                         "emulated, which a count of instructions needs"));
}

std::size_t most_blocks(const Cluster& gpu, const Profile& profile) {
  const emulator::DeviceModel& model = emulator::model_named(gpu.emulated);
  const std::size_t warps = (profile.threads + 31) / 32;
  const std::size_t registers =
      emulator::registers_of_block(profile.threads, emulator::registers_of(profile.name, model));
  return std::min({kBlocksOfMultiprocessor, kWarpsOfMultiprocessor / warps,
                   (model.shared_bytes_optin + kSharedBytesOfCuda) /
                       (profile.shared_bytes + kSharedBytesOfCuda),
                   registers == 0 ? kBlocksOfMultiprocessor : model.registers / registers});
}

double most_occupancy(const Cluster& gpu, const Profile& profile) {
  if (profile.kind == Profile::Kind::product || profile.threads == 0) return 0;
  const std::size_t warps = (profile.threads + 31) / 32;
  const double given = std::ceil(profile.blocks / number_of(gpu.multiprocessors));
  const double blocks = std::min(number_of(most_blocks(gpu, profile)), given);
  return blocks * number_of(warps) / number_of(kWarpsOfMultiprocessor);
}

emulator::GpuCache cache_of(const Cluster& gpu) {
  const double bytes = kCachePart * number_of(gpu.cache_bytes);
  return {static_cast<std::size_t>(bytes), [&gpu](const Profile& profile) {
            return gpu.multiprocessors * most_blocks(gpu, profile);
          }};
}

double instructions_of(const Profile& profile) {
  const double warps = profile.blocks * number_of((profile.threads + 31) / 32);
  const KernelCode* const code =
      profile.kind == Profile::Kind::product ? nullptr : code_of(profile.name);
  if (code == nullptr || warps == 0) return 0;
  emulator::Events of_warp = profile.counts.events;
  for (double& events : of_warp) events /= warps;
  return warps * instructions_of_warp(*code, of_warp);
}

Time time_of(const Cluster& gpu, const Profile& profile, DType dtype) {
  Time time = profile.kind == Profile::Kind::product ? time_of_product(gpu, profile.product, dtype)
                                                     : time_of_kernel(gpu, profile, dtype);
  time.seconds += gpu.least_kernel_seconds;
  return time;
}

}  // namespace ladder::roofline
