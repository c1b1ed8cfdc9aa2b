#include "common/pipeline/plan.h"

#include <algorithm>
#include <utility>

#include "common/schedule/build.h"

namespace ladder {

ModelPartition PipelinePlan::operations_of(size_t stage) const {
  ModelPartition all = chunks[placement.virtual_stage_at(stage, 0)];
  for (size_t chunk = 1; chunk < placement.num_chunks; ++chunk) {
    const ModelPartition& more = chunks[placement.virtual_stage_at(stage, chunk)];
    all.more_chunks.push_back({more.first, more.end});
  }
  return all;
}

void PipelinePlan::complete(const ModelConfig& config, const Schedule& work) {
  const size_t last = placement.chunk_of(placement.num_virtual_stages() - 1).stage;
  const ModelDescription model = describe(config);
  const bool shares_units = !Layout(model, 1, operations_of(last)).shared_units().empty();
  schedule = ladder::complete(work, placement, shares_units);
  end_backward(model);
}

void PipelinePlan::end_backward(const ModelDescription& model) {
  const size_t end = model.first_trained();
  const auto has_backward = [&](const ModelPartition& chunk) { return chunk.end > end; };
  const auto first = std::ranges::find_if(chunks, has_backward) - chunks.begin();
  schedule = without_backward(schedule, placement, static_cast<size_t>(first), links);
}

PipelineStage::PipelineStage(std::shared_ptr<const PipelinePlan> plan_, const ModelConfig& config,
                             size_t index_, const ModelPartition& split, size_t num_replicas)
    : plan(std::move(plan_)),
      index(index_),
      layout(config, num_replicas, plan->operations_of(index).split_like(split)) {
  for (size_t chunk = 0; chunk < plan->placement.num_chunks; ++chunk) {
    const ModelPartition& own = plan->chunks[plan->placement.virtual_stage_at(index, chunk)];
    chunks.emplace_back(config, num_replicas, own.split_like(split));
  }
}

bool PipelineStage::sends_gradients(bool to_later) const {
  const ChunkPlacement& at = plan->placement;
  for (size_t chunk = 0; chunk < at.num_chunks; ++chunk) {
    const size_t own = at.virtual_stage_at(index, chunk);
    if (!chunks[chunk].sends_gradient()) continue;
    const size_t to = at.chunk_of(own - 1).stage;
    if (to_later ? to > index : to < index) return true;
  }
  return false;
}

}  // namespace ladder
