// What a stage keeps of the plan, and what it sends.
#include "lessons/16_pipeline_schedules/plan.h"

namespace ladder {

ChunkPlan ChunkPlan::of_stage(size_t stage) const {
  if (stage == 0) return *this;
  PipelinePlan own = {.parts = pipeline.parts,
                      .schedule = Schedule(pipeline.schedule.size()),
                      .name = pipeline.name,
                      .links = pipeline.links};
  own.schedule[stage] = pipeline.schedule[stage];
  return {placement, parts, std::move(own)};
}

GradientDirections ChunkStage::sends() const {
  const ChunkPlacement& at = plan.placement;
  GradientDirections sends;
  for (size_t chunk = 0; chunk < at.num_chunks; ++chunk) {
    const size_t part = at.part_at(index, chunk);
    if (part == 0) continue;
    const size_t to = at.place_of(part - 1).stage;
    sends.to_earlier |= to < index;
    sends.to_later |= to > index;
  }
  return sends;
}

TrafficEntries ChunkStage::traffic(const RunConfig& config, bool in_shards) const {
  StageSchedule messages = schedule();
  std::erase_if(messages, [&](const Action& action) {
    return (is_send(action.kind) || is_recv(action.kind)) && action.peer == index;
  });
  return pipeline_traffic(config, layouts.stage, messages, in_shards);
}

}  // namespace ladder
