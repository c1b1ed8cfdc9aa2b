#include "lessons/19_planning/estimate.h"

#include <algorithm>
#include <limits>

#include "common/comm/job.h"
#include "common/model/description.h"
#include "common/train/run/virtual_run.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

double peak_flops(const Candidate& candidate, const PlanRequest& request) {
  const auto index = static_cast<size_t>(dtype_named(compute_dtype(candidate, request)));
  const Cluster& cluster = request.cluster;
  const bool is_measured = !cluster.kernels.empty();  // then efficiencies are not used
  return cluster.product_flops[index] * (is_measured ? 1 : cluster.product_efficiency[index]);
}

// Returns what part of the forward pass of blocks is computed again at least.
double least_recomputed(const std::string& mode) {
  if (mode == "block") return 0.9;  // the last steps of a block need not run again
  return mode == "attention" || mode == "mlp" ? 0.2 : 0;
}

// Returns one of the replicas that share the batch. With ZeRO's stages 2 and 3 it would copy what
// it need not gather, so it is one of lesson 02.
Candidate replica_of(Candidate candidate) {
  if (candidate.data == 1) return candidate;
  const bool has_replicas =
      candidate.lesson == "09_3d_parallel" || candidate.lesson == "10_mixed_precision";
  if (!has_replicas) candidate.lesson = "02_ddp";
  candidate.data = 1;
  candidate.zero_stage = 0;
  candidate.shard_size = 0;
  return candidate;
}

// Returns the step with so many micro-batches, and with so many transformer blocks (0: all).
SimulatedStep simulate_exactly(const Candidate& candidate, PlanRequest request,
                               const Cluster& cluster, size_t num_micro_batches,
                               size_t num_layers = 0) {
  request.global_batch_size = num_micro_batches * candidate.micro_batch_size * candidate.data;
  Prepared prepared = prepare(candidate, request);
  if (num_layers > 0) prepared.config.model.num_layers = num_layers;
  // One replica may need more than its part of many would.
  prepared.config.device_memory = std::numeric_limits<size_t>::max() / 2;
  return VirtualRun(prepared.program, prepared.config, cluster, candidate.num_ranks())
      .run(request.watch);
}

// Returns the seconds of AdamW for parameters with these buffers, if memory is the limit. It reads
// and writes moments, masters and parameters, and reads gradients.
double update_seconds(const MemoryUse& use, const Cluster& cluster) {
  const size_t bytes =
      2 * use[Category::optimizer] + 2 * use[Category::parameters] + use[Category::gradients];
  return number_of(bytes) / (cluster.memory_bandwidth * cluster.memory_efficiency);
}

}  // namespace

size_t num_micro_batches(const Candidate& candidate, const PlanRequest& request) {
  return request.global_batch_size / (candidate.data * candidate.micro_batch_size);
}

double bubble_of(const Candidate& candidate, const PlanRequest& request) {
  const double stages = number_of(candidate.pipeline);
  return (stages - 1) / (number_of(num_micro_batches(candidate, request)) + stages - 1);
}

double products_bound(const Candidate& candidate, const PlanRequest& request,
                      const ModelDescription& model) {
  const double tokens = tokens_per_step(request, model.config);
  double blocks = 0, all = 0;
  for (const Operation& operation : model.operations) {
    all += operation.forward_flops;
    if (operation.kind == OperationKind::block) blocks += operation.forward_flops;
  }
  // Forward and backward together are three times forward.
  const double again = least_recomputed(candidate.recompute) * blocks / (3 * all);
  const double rate =
      peak_flops(candidate, request) * request.cluster.num_peaks(candidate.num_ranks());
  const double seconds = 3 * all * tokens * (1 + again) / rate;
  return seconds / (1 - bubble_of(candidate, request));
}

size_t memory_for_libraries(const PlanRequest& request, size_t num_communicators) {
  // A context with its kernels: 300 to 543 MB were seen (pytorch/pytorch issues 28394, 107667 and
  // 81257). The first communicator took 482 MiB more than others (common/comm/job.cc).
  constexpr size_t kContext = size_t{512} << 20, kFirstCommunicator = size_t{482} << 20;
  if (request.keep_free) return *request.keep_free;
  if (request.cluster.is_cpu) return 0;
  constexpr size_t kMuch = size_t{1} << 60;
  return kContext + (num_communicators > 0 ? kFirstCommunicator : 0) + kMuch -
         memory_beside_libraries(kMuch, num_communicators);
}

MemoryNeed memory_need(const Candidate& candidate, const PlanRequest& request) {
  const Prepared prepared = prepare(candidate, request);
  const size_t num_ranks = candidate.num_ranks();
  const ProcessGrid grid = prepared.program.grid(num_ranks, 0);
  const Cluster& cluster = request.cluster;
  const size_t sharers = std::min(num_ranks, cluster.devices_per_node);
  MemoryNeed need;
  for (size_t stage = 0; stage < candidate.pipeline && need.fits; ++stage) {
    if (request.watch) request.watch();
    const size_t rank = grid.rank_at(Axis::pipeline, stage);
    const Prediction prediction =
        predict_memory(prepared.program, prepared.config, prepared.program.grid(num_ranks, rank));
    need.consider(rank, prediction.device, prediction.host);
    const size_t num_groups = prepared.program.arrange ? prediction.num_groups : 0;
    need.for_libraries = memory_for_libraries(request, num_ranks > 1 ? 1 + num_groups : 0);
    need.fits = need.device.total() + need.for_libraries <= cluster.device_memory &&
                need.host.total() * sharers <= cluster.host_memory;
  }
  return need;
}

double block_bound(const Candidate& candidate, const PlanRequest& request,
                   const ModelConfig& model) {
  Candidate one;
  one.micro_batch_size = candidate.micro_batch_size;
  one.recompute = candidate.recompute;
  if (candidate.lesson == "10_mixed_precision") one.lesson = candidate.lesson;
  if (candidate.tensor > 1) {
    one.lesson = "09_3d_parallel";
    one.tensor = candidate.tensor;
    one.sequence_parallel = candidate.sequence_parallel;
  }
  // What a second block adds to what a second micro-batch adds.
  const auto block = [&](const Cluster& cluster) {
    const auto seconds = [&](size_t num_layers, size_t num_micro_batches) {
      return simulate_exactly(one, request, cluster, num_micro_batches, num_layers).seconds;
    };
    return seconds(2, 2) - seconds(2, 1) - seconds(1, 2) + seconds(1, 1);
  };
  // While a stage waits in the bubble, its host queues kernels, so only their own time comes again.
  Cluster queued = request.cluster;
  queued.launch_seconds = 0;
  const double m = number_of(num_micro_batches(candidate, request));
  const double stages = number_of(candidate.pipeline);
  const double all = std::max(block(request.cluster) * m, block(queued) * (m + stages - 1));
  return 0.98 * all * number_of(model.num_layers) / stages;
}

double recomputed_part(const Candidate& candidate, const PlanRequest& request) {
  Candidate one;
  one.micro_batch_size = candidate.micro_batch_size;
  if (candidate.lesson == "10_mixed_precision") one.lesson = candidate.lesson;
  const auto computed = [&](const std::string& mode) {
    one.recompute = mode;
    const SimulatedStep step = simulate_exactly(one, request, request.cluster, 2);
    return step.hardware_utilization / step.model_utilization;
  };
  return 1 - computed("none") / computed(candidate.recompute);
}

StepTime simulate_step(const Candidate& candidate, const PlanRequest& request,
                       const Cluster& cluster) {
  const size_t all = num_micro_batches(candidate, request);
  const size_t few = candidate.pipeline + 1;
  const bool is_direct = all <= few + 1;
  const SimulatedStep begin = simulate_exactly(candidate, request, cluster, is_direct ? all : few);
  StepTime time{.seconds = begin.seconds, .device = begin.device};
  if (is_direct) return time;
  // Ranks of lessons 04 to 06 and 21 communicate in each micro-batch; on a CPU all share the cores.
  const bool is_one = cluster.is_cpu || candidate.shard_size > 0 ||
                      (candidate.lesson > "04" && candidate.lesson < "07");
  const Candidate repeated = is_one ? candidate : replica_of(candidate);
  const double one = repeated.data == candidate.data
                         ? begin.seconds
                         : simulate_exactly(repeated, request, cluster, few).seconds;
  const size_t more = std::max<size_t>(2, candidate.pipeline);
  const double longer = simulate_exactly(repeated, request, cluster, few + more).seconds;
  time.seconds += (longer - one) / number_of(more) * number_of(all - few);
  return time;
}

StepTime simulate_replica(const Candidate& candidate, const PlanRequest& request,
                          const Cluster& cluster) {
  if (cluster.is_cpu) return simulate_step(candidate, request, cluster);  // all share the cores
  PlanRequest share = request;
  share.global_batch_size = request.global_batch_size / candidate.data;
  StepTime time = simulate_step(replica_of(candidate), share, cluster);
  if (candidate.zero_stage > 0) {
    const double others = 1 - 1 / number_of(candidate.sharers());
    time.seconds -= others * update_seconds(time.device, cluster);
  }
  return time;
}

}  // namespace ladder
