#include "tools/planner/estimate.h"

#include <algorithm>
#include <limits>

#include "common/model/description.h"
#include "common/train/progress.h"
#include "common/train/virtual_run.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

double peak_flops(const Candidate& candidate, const PlanRequest& request) {
  const std::string name = compute_dtype(candidate, request);
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    if (name_of(dtype) != name) continue;
    const size_t index = static_cast<size_t>(dtype);
    const Cluster& cluster = request.cluster;
    const bool is_measured = !cluster.kernels.empty();  // then efficiencies are not used
    return cluster.product_flops[index] * (is_measured ? 1 : cluster.product_efficiency[index]);
  }
  throw UserError(concat("--dtype ", name, ": expected fp32, fp64 or bf16"));
}

// Returns what part of the forward pass of blocks is computed again at least.
double least_recomputed(const std::string& mode) {
  if (mode == "block") return 0.9;  // the last steps of a block need not run again
  return mode == "attention" || mode == "mlp" ? 0.2 : 0;
}

// Returns the step with so many micro-batches.
SimulatedStep simulate_exactly(Candidate candidate, PlanRequest request, const Cluster& cluster,
                               size_t num_micro_batches) {
  request.global_batch_size = num_micro_batches * candidate.micro_batch_size * candidate.data;
  Prepared prepared = prepare(candidate, request);
  // One replica may need more than its part of many would.
  prepared.config.device_memory = std::numeric_limits<size_t>::max() / 2;
  return VirtualRun(prepared.program, prepared.config, cluster, candidate.num_ranks()).run();
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
                      const Gpt2Config& model) {
  const ModelDescription description = describe(model);
  const double sequences = number_of(request.global_batch_size);
  const double tokens = sequences * number_of(model.sequence_length);
  double blocks = 0, all = 0;
  for (const Operation& operation : description.operations) {
    all += operation.forward_flops;
    if (operation.kind == OperationKind::block) blocks += operation.forward_flops;
  }
  // Forward and backward together are three times forward.
  const double again = least_recomputed(candidate.recompute) * blocks / (3 * all);
  const double rate = peak_flops(candidate, request) * number_of(candidate.num_ranks());
  const double seconds = 3 * all * tokens * (1 + again) / rate;
  return seconds / (1 - bubble_of(candidate, request));
}

MemoryNeed memory_need(const Candidate& candidate, const PlanRequest& request) {
  const Prepared prepared = prepare(candidate, request);
  const size_t num_ranks = candidate.num_ranks();
  const ProcessGrid grid = grid_of(prepared, num_ranks, 0);
  const Cluster& cluster = request.cluster;
  const size_t sharers = std::min(num_ranks, cluster.devices_per_node);
  MemoryNeed need;
  for (size_t stage = 0; stage < candidate.pipeline && need.fits; ++stage) {
    const size_t rank = grid.rank_at(Axis::pipeline, stage);
    const Prediction prediction =
        predict(prepared.program, prepared.config, grid_of(prepared, num_ranks, rank));
    if (prediction.device.total() > need.device.total()) need.device = prediction.device;
    if (prediction.host.total() > need.host.total()) need.host = prediction.host;
    need.fits = need.device.total() <= cluster.device_memory &&
                need.host.total() * sharers <= cluster.host_memory;
  }
  return need;
}

StepTime simulate_step(const Candidate& candidate, const PlanRequest& request,
                       const Cluster& cluster) {
  const size_t all = num_micro_batches(candidate, request);
  const size_t few = candidate.pipeline + 1, more = few + 2;
  StepTime time;
  SimulatedStep last;
  if (all <= few + more) {
    last = simulate_exactly(candidate, request, cluster, all);
    time.seconds = last.seconds;
  } else {
    const double begin = simulate_exactly(candidate, request, cluster, few).seconds;
    last = simulate_exactly(candidate, request, cluster, more);
    time.seconds = begin + (last.seconds - begin) * number_of(all - few) / number_of(more - few);
  }
  if (last.model_utilization > 0) {
    time.computed = last.hardware_utilization / last.model_utilization;
  }
  time.device = last.device;
  return time;
}

StepTime simulate_replica(const Candidate& candidate, const PlanRequest& request,
                          const Cluster& cluster) {
  Candidate replica = candidate;
  replica.data = 1;
  if (replica.lesson == "09_3d_parallel") replica.zero_stage = 0;
  PlanRequest share = request;
  share.global_batch_size = request.global_batch_size / candidate.data;
  StepTime time = simulate_step(replica, share, cluster);
  if (candidate.zero_stage > 0) {
    const double others = 1 - 1 / number_of(candidate.data);
    time.seconds -= others * update_seconds(time.device, cluster);
  }
  return time;
}

Cluster without_communication(Cluster cluster) {
  for (Link* const link : {&cluster.node_link, &cluster.network}) {
    link->bandwidth = 1e30;
    link->latency = 0;
  }
  cluster.call_seconds = 0;
  cluster.node_compute_share = cluster.network_compute_share = 0;
  cluster.collectives.clear();
  return cluster;
}

}  // namespace ladder
