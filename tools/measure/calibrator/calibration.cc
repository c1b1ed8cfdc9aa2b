#include "tools/measure/calibrator/calibration.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "kernels/machine_limits.h"
#include "kernels/runtime/median.h"
#include "kernels/runtime/threads.h"
#include "tools/measure/calibrator/measure.h"

namespace ladder {
namespace {

// Sizes of collectives and messages, in bytes.
constexpr size_t kSmallMessage = 256, kLargeMessage = size_t{1} << 20;
constexpr std::array kSizes = {size_t{256},       size_t{4} << 10, size_t{32} << 10,
                               size_t{256} << 10, size_t{1} << 20, size_t{4} << 20,
                               size_t{16} << 20,  size_t{64} << 20};
constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter,
                                     Collective::all_gather, Collective::broadcast,
                                     Collective::reduce,     Collective::all_to_all};

// Removes the runs that refuse so many ranks, and returns what the others call.
StepCalls calls_of(std::vector<LessonRun>& runs, size_t num_ranks) {
  StepCalls calls;
  std::optional<UserError> refused;
  std::erase_if(runs, [&](const LessonRun& run) {
    try {
      add_calls(run, num_ranks, calls);
      return false;
    } catch (const UserError& error) {
      refused = error;
      return true;
    }
  });
  if (runs.empty() && refused) throw UserError(refused->what());
  return calls;
}

// Returns what a point has of a call.
auto work_of(const KernelCall& call) {
  const KernelPoint p = point_of(call, 1, 1);
  return std::tuple(std::string_view(call.name), p.dtype, p.work, p.m, p.n, p.k);
}

void add_points(Cluster& cluster, const StepCalls& calls, size_t busy_ranks, Measurer& measurer) {
  std::vector<double> own;
  for (const auto& [key, one] : calls) own.push_back(one.seconds.empty() ? 0 : median(one.seconds));
  const std::vector<double> seconds = measurer.means_of(own);
  // Calls with other shapes may have the same work: then the mean of all calls is taken.
  struct Sum {
    const KernelCall* call;
    double count = 0, seconds = 0;
  };
  std::map<decltype(work_of(KernelCall())), Sum> sums;
  for (auto next = seconds.begin(); const auto& [key, one] : calls) {
    Sum& sum = sums[work_of(one.call)];
    sum.call = &one.call;
    sum.count += number_of(one.count);
    sum.seconds += number_of(one.count) * *next++;
  }
  for (const auto& [key, sum] : sums) {
    const KernelCall& call = *sum.call;
    auto kernel = std::ranges::find(cluster.kernels, call.name, &MeasuredKernel::name);
    if (kernel == cluster.kernels.end()) {
      kernel = cluster.kernels.insert(kernel, {.name = call.name});
    }
    kernel->points.push_back(point_of(call, busy_ranks, sum.seconds / sum.count));
  }
}

// Whether lessons call it in the background of backward.
bool overlaps(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather;
}

void measure_collectives(Cluster& cluster, size_t num_ranks, Measurer& measurer) {
  for (const Collective collective : kCollectives) {
    for (const size_t bytes : kSizes) {
      const double seconds = overlaps(collective) ? measurer.background_seconds(collective, bytes)
                                                  : measurer.collective_seconds(collective, bytes);
      cluster.collectives.push_back({collective, num_ranks, number_of(bytes), seconds});
    }
  }
  if (num_ranks != 2) return;
  const double small = measurer.message_seconds(kSmallMessage);
  const double large = measurer.message_seconds(kLargeMessage);
  cluster.call_seconds = small;
  cluster.node_link = {.bandwidth = number_of(kLargeMessage) / std::max(large - small, 1e-9),
                       .efficiency = 1,
                       .latency = 0};
}

// Returns the greatest rate that a measured product or attention kernel reaches.
double best_rate(const Cluster& cluster, std::string_view name) {
  double best = 0;
  const auto kernel = std::ranges::find(cluster.kernels, name, &MeasuredKernel::name);
  if (kernel == cluster.kernels.end()) return best;
  for (const KernelPoint& p : kernel->points) {
    if (p.dtype != DType::fp32) continue;
    const double flops = p.m > 0 ? 2 * number_of(p.m) * number_of(p.n) * number_of(p.k) : p.work;
    best = std::max(best, number_of(p.busy_ranks) * flops / p.seconds);
  }
  return best;
}

double product_rate(DType dtype, Measurer& measurer) {
  constexpr double kExtent = 512;
  return 2 * kExtent * kExtent * kExtent / measurer.product_seconds(kExtent, dtype);
}

// What all cores can do.
void measure_limits(Cluster& cluster, Measurer& measurer) {
  Stream stream(DeviceType::cpu);
  const double peak = measure(Limit::fp32, stream);
  const double reached = product_rate(DType::fp32, measurer) / peak;
  const double efficiency = std::clamp(reached, 1e-3, 1.0);
  cluster.product_efficiency.fill(efficiency);
  const auto set = [&](DType dtype, double flops) {
    cluster.product_flops[static_cast<size_t>(dtype)] = flops;
  };
  set(DType::fp32, peak);
  for (const DType dtype : {DType::fp64, DType::bf16, DType::fp16}) {
    set(dtype, product_rate(dtype, measurer) / efficiency);
  }
  const auto part = [&](const char* name) {
    const double rate = best_rate(cluster, name);
    return rate > 0 ? std::clamp(rate / peak, 1e-3, 1.0) : efficiency;
  };
  cluster.attention_forward_efficiency = part("attention_forward");
  cluster.attention_backward_efficiency = part("attention_backward");
  cluster.vector_flops = peak;
  cluster.memory_bandwidth = measure(Limit::bandwidth, stream);
  cluster.memory_efficiency = 1;
  cluster.least_kernel_seconds = measurer.fill_seconds(16);
}

Cluster this_machine() {
  Cluster cluster;
  const auto cores = static_cast<size_t>(num_available_cores());
  cluster.device = concat("this machine with ", counted(cores, "core"));
  cluster.is_cpu = true;
  cluster.devices_per_node = std::max<size_t>(2, cores);
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  cluster.host_memory = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  cluster.node_link_shared = true;
  cluster.node_compute_share = 0.99;
  return cluster;
}

}  // namespace

KernelPoint point_of(const KernelCall& call, size_t busy_ranks, double seconds) {
  const Cost& cost = call.cost;
  KernelPoint point = {.dtype = call.dtype, .busy_ranks = busy_ranks, .seconds = seconds};
  if (cost.m > 0) {
    point.m = cost.m, point.n = cost.n, point.k = cost.k;
  } else {
    point.in_flops = cost.product_flops > 0;
    point.work = point.in_flops ? cost.product_flops : cost.bytes();
  }
  return point;
}

Cluster calibrate(const CalibrationRequest& request, Job& job) {
  Cluster cluster = this_machine();
  const int cores = num_available_cores();
  Communicator& world = job.communicator();
  for (const size_t busy : request.busy_ranks) {
    std::vector<LessonRun> runs = request.runs;
    StepCalls calls = calls_of(runs, busy);
    const bool is_busy = world.rank() < busy;
    const auto ranks = world.split(is_busy);
    if (is_busy) {
      // As many threads as a trainer on so many ranks has.
      set_num_threads(std::max(1, cores / static_cast<int>(busy)));
      Measurer measurer(*ranks, job.registered());
      for (const LessonRun& run : runs) {
        ranks->barrier();
        time_calls(run, ranks->rank(), busy, calls);
      }
      add_points(cluster, calls, busy, measurer);
      if (busy > 1) measure_collectives(cluster, busy, measurer);
    }
    world.barrier();  // the other ranks sleep here
  }
  const auto alone = world.split(world.rank());
  if (world.rank() == 0) {
    set_num_threads(cores);
    Measurer measurer(*alone, nullptr);
    measure_limits(cluster, measurer);
  }
  world.barrier();
  if (cluster.node_link.bandwidth == 0) {  // no two ranks were measured
    cluster.node_link = {.bandwidth = cluster.memory_bandwidth, .efficiency = 0.3, .latency = 0};
    cluster.call_seconds = cluster.least_kernel_seconds;
  }
  return cluster;
}

}  // namespace ladder
