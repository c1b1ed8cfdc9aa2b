#include "common/pipeline/plan.h"

#include <utility>

#include "common/schedule/build.h"

namespace ladder {

ModelPart PipelinePlan::operations_of(size_t stage) const {
  ModelPart all = chunks[placement.part_at(stage, 0)];
  for (size_t chunk = 1; chunk < placement.num_chunks; ++chunk) {
    const ModelPart& more = chunks[placement.part_at(stage, chunk)];
    all.more_chunks.push_back({more.first, more.end});
  }
  return all;
}

void PipelinePlan::complete(const Gpt2Config& config, const Schedule& work) {
  const size_t last = placement.place_of(placement.num_parts() - 1).stage;
  const bool shares_units = !Layout(config, 1, operations_of(last)).shared_units().empty();
  schedule = ladder::complete(work, placement, shares_units);
}

PipelineStage::PipelineStage(std::shared_ptr<const PipelinePlan> plan_, const Gpt2Config& config,
                             size_t index_, const ModelPart& split, size_t num_replicas)
    : plan(std::move(plan_)),
      index(index_),
      layout(config, num_replicas, plan->operations_of(index).split_like(split)) {
  for (size_t chunk = 0; chunk < plan->placement.num_chunks; ++chunk) {
    const ModelPart& own = plan->chunks[plan->placement.part_at(index, chunk)];
    chunks.emplace_back(config, num_replicas, own.split_like(split));
  }
}

bool PipelineStage::sends_gradients(bool to_later) const {
  const ChunkPlacement& at = plan->placement;
  for (size_t chunk = 0; chunk < at.num_chunks; ++chunk) {
    const size_t own = at.part_at(index, chunk);
    if (own == 0) continue;
    const size_t to = at.place_of(own - 1).stage;
    if (to_later ? to > index : to < index) return true;
  }
  return false;
}

TrafficEntries PipelineStage::traffic(const RunConfig& config, bool in_shards) const {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  const size_t message =
      layout.part().residual().count(rows) * config.model.hidden * size_of(config.dtype);
  TrafficEntries traffic;
  const auto add = [&](const TrafficKey& key, size_t bytes) {
    ++traffic[key].calls;
    traffic[key].payload_bytes += bytes;
  };
  for (const Action& action : schedule()) {
    if (action.kind == ActionKind::reduce_embedding) {
      for (size_t unit : layout.shared_units()) {
        const size_t shards = in_shards ? layout.world_size() : 1;
        add({Purpose::gradient, Collective::all_reduce, Axis::embedding},
            layout.unit(unit).padded_elements / shards * size_of(config.accumulation()));
      }
    }
    if (action.peer == index) continue;  // a copy
    if (is_send(action.kind)) add({Purpose::activation, Collective::send, Axis::pipeline}, message);
    if (is_recv(action.kind)) add({Purpose::activation, Collective::recv, Axis::pipeline}, message);
  }
  return traffic;
}

}  // namespace ladder
