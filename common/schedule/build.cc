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
    const size_t part = placement_.part_at(stage_, work.chunk);
    const bool is_first = part == 0, is_last = part + 1 == placement_.num_parts();
    if (work.kind == ActionKind::forward) take_slot(work);
    if (work.kind == ActionKind::forward && !is_first)
      add(work, ActionKind::recv_activation, part - 1);
    if (makes_gradient(work.kind) && !is_last) add(work, ActionKind::recv_gradient, part + 1);
    add(work, work.kind, part);
    if (work.kind == ActionKind::forward && !is_last)
      add(work, ActionKind::send_activation, part + 1);
    if (makes_gradient(work.kind) && !is_first) add(work, ActionKind::send_gradient, part - 1);
    if (work.kind == ActionKind::backward || work.kind == ActionKind::backward_weight) {
      free_.insert(slot_of(work));
    }
  }

  StageSchedule take() { return std::move(actions_); }

 private:
  size_t& slot_of(const Action& work) { return slots_[{work.chunk, work.micro_batch}]; }

  void take_slot(const Action& work) {
    if (free_.empty()) free_.insert(num_slots_++);
    slot_of(work) = *free_.begin();
    free_.erase(free_.begin());
  }

  void add(const Action& work, ActionKind kind, size_t other_part) {
    const bool is_message = is_send(kind) || is_recv(kind);
    actions_.push_back({.kind = kind,
                        .micro_batch = work.micro_batch,
                        .slot = slot_of(work),
                        .peer = is_message ? placement_.place_of(other_part).stage : 0,
                        .chunk = work.chunk});
  }

  ChunkPlacement placement_;
  size_t stage_;
  StageSchedule actions_;
  std::map<std::pair<size_t, size_t>, size_t> slots_;  // by chunk and micro-batch
  std::set<size_t> free_;
  size_t num_slots_ = 0;
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
  const size_t last = placement.place_of(placement.num_parts() - 1).stage;
  if (last != 0 && reduces_embedding) {
    schedule.front().push_back({.kind = ActionKind::reduce_embedding, .peer = last});
    schedule[last].push_back({.kind = ActionKind::reduce_embedding, .peer = 0});
  }
  return schedule;
}

Costs costs_of(const ChunkPlacement& placement, const std::vector<PartTimes>& times,
               double message) {
  check(times.size() == placement.num_parts(), "costs_of: one time for each part");
  return [=](size_t stage, const Action& action) {
    const PartTimes& part = times[placement.part_at(stage, action.chunk)];
    switch (action.kind) {
      case ActionKind::forward:
        return part.forward;
      case ActionKind::backward:
        return part.input + part.weight;
      case ActionKind::backward_input:
        return part.input;
      case ActionKind::backward_weight:
        return part.weight;
      case ActionKind::reduce_embedding:
        return 0.0;
      default:
        return message;
    }
  };
}

}  // namespace ladder
