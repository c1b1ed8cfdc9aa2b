#include "common/schedule/build.h"

#include <map>
#include <set>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Completes the work of one stage.
class StageBuilder {
 public:
  StageBuilder(const ChunkPlacement& placement, size_t stage)
      : placement_(placement), stage_(stage) {}

  void add(const Action& work) {
    const size_t v = placement_.virtual_stage_at(stage_, work.chunk);
    const bool is_first = v == 0, is_last = v + 1 == placement_.num_virtual_stages();
    if (work.kind == ActionKind::forward) take_buffer(work);
    if (work.kind == ActionKind::forward && !is_first)
      add(work, ActionKind::recv_activation, v - 1);
    if (makes_gradient(work.kind) && !is_last) add(work, ActionKind::recv_gradient, v + 1);
    add(work, work.kind, v);
    if (work.kind == ActionKind::forward && !is_last) add(work, ActionKind::send_activation, v + 1);
    if (makes_gradient(work.kind) && !is_first) add(work, ActionKind::send_gradient, v - 1);
    if (work.kind == ActionKind::backward || work.kind == ActionKind::backward_weight) {
      free_.insert(buffer_of(work));
    }
  }

  StageSchedule take() { return std::move(actions_); }

 private:
  size_t& buffer_of(const Action& work) { return buffers_[{work.chunk, work.micro_batch}]; }

  void take_buffer(const Action& work) {
    if (free_.empty()) free_.insert(num_buffers_++);
    buffer_of(work) = *free_.begin();
    free_.erase(free_.begin());
  }

  void add(const Action& work, ActionKind kind, size_t other_part) {
    const bool is_message = is_send(kind) || is_recv(kind);
    actions_.push_back({.kind = kind,
                        .micro_batch = work.micro_batch,
                        .buffer = buffer_of(work),
                        .peer = is_message ? placement_.chunk_of(other_part).stage : 0,
                        .chunk = work.chunk});
  }

  ChunkPlacement placement_;
  size_t stage_;
  StageSchedule actions_;
  std::map<std::pair<size_t, size_t>, size_t> buffers_;  // by chunk and micro-batch
  std::set<size_t> free_;
  size_t num_buffers_ = 0;
};

}  // namespace

Schedule complete(const Schedule& work, const ChunkPlacement& placement, bool reduces_embedding) {
  check(work.size() == placement.num_stages, "complete: another number of stages");
  Schedule schedule;
  for (size_t stage = 0; stage < work.size(); ++stage) {
    StageBuilder builder(placement, stage);
    for (const Action& action : work[stage]) builder.add(action);
    schedule.push_back(builder.take());
  }
  const size_t last = placement.chunk_of(placement.num_virtual_stages() - 1).stage;
  if (last != 0 && reduces_embedding) {
    schedule.front().push_back({.kind = ActionKind::reduce_embedding, .peer = last});
    schedule[last].push_back({.kind = ActionKind::reduce_embedding, .peer = 0});
  }
  return schedule;
}

Costs costs_of(const ChunkPlacement& placement, const std::vector<VirtualStageTimes>& times,
               double message) {
  check(times.size() == placement.num_virtual_stages(),
        "costs_of: one time for each virtual stage");
  return [=](size_t stage, const Action& action) {
    const VirtualStageTimes& v = times[placement.virtual_stage_at(stage, action.chunk)];
    switch (action.kind) {
      case ActionKind::forward:
        return v.forward;
      case ActionKind::backward:
        return v.input + v.weight;
      case ActionKind::backward_input:
        return v.input;
      case ActionKind::backward_weight:
        return v.weight;
      case ActionKind::reduce_embedding:
        return 0.0;
      default:
        return message;
    }
  };
}

}  // namespace ladder
