#include "common/schedule/build.h"

#include <deque>
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

// Leaves out what one stage does for the backward of the virtual stages before `first`. A chunk
// without backward holds up to `most_held` micro-batches whose output it has passed on.
class BackwardCutter {
 public:
  BackwardCutter(const ChunkPlacement& placement, size_t stage, size_t first, size_t most_held)
      : placement_(placement), stage_(stage), first_(first), most_held_(most_held) {}

  void add(Action action) {
    if (action.kind == ActionKind::reduce_embedding) return actions_.push_back(action);
    const size_t v = placement_.virtual_stage_at(stage_, action.chunk);
    const Holder holder = {action.chunk, action.micro_batch};
    const bool begins =
        action.kind == ActionKind::recv_activation || action.kind == ActionKind::forward;
    if (begins && !held_.contains(holder)) take_buffer(holder);
    if (!is_left_out(action, v)) {
      action.buffer = buffers_.at(holder);
      actions_.push_back(action);
    }
    const bool is_local = action.peer == stage_;
    if (action.kind == ActionKind::send_activation && !is_local) pass_on(holder);
    if (action.kind == ActionKind::recv_activation && is_local) {
      pass_on({action.chunk - 1, action.micro_batch});
    }
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) {
      release(holder);
    }
  }

  StageSchedule take() { return std::move(actions_); }

 private:
  using Holder = std::pair<size_t, size_t>;  // a chunk and its micro-batch

  bool is_left_out(const Action& action, size_t v) const {
    if (v == first_) return action.kind == ActionKind::send_gradient;
    return v < first_ && (moves_gradient(action.kind) || makes_gradient(action.kind) ||
                          action.kind == ActionKind::backward_weight);
  }

  void take_buffer(const Holder& holder) {
    if (free_.empty()) free_.insert(num_buffers_++);
    buffers_[holder] = *free_.begin();
    held_.insert(holder);
    free_.erase(free_.begin());
  }

  // Another virtual stage has the micro-batch's output, or is being sent it.
  void pass_on(const Holder& holder) {
    const size_t chunk = holder.first;
    if (placement_.virtual_stage_at(stage_, chunk) >= first_) return;
    passed_on_[chunk].push_back(holder);
    if (passed_on_[chunk].size() < most_held_) return;
    release(passed_on_[chunk].front());
    passed_on_[chunk].pop_front();
  }

  void release(const Holder& holder) {
    if (held_.erase(holder) > 0) free_.insert(buffers_.at(holder));
  }

  ChunkPlacement placement_;
  size_t stage_, first_, most_held_;
  StageSchedule actions_;
  std::map<Holder, size_t> buffers_;
  std::set<Holder> held_;                           // that have their buffer still
  std::map<size_t, std::deque<Holder>> passed_on_;  // by chunk
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

Schedule without_backward(const Schedule& schedule, const ChunkPlacement& placement, size_t first,
                          Links links) {
  if (first == 0) return schedule;
  for (size_t most_held = 1;; ++most_held) {
    Schedule cut;
    size_t longest = 0;
    for (size_t stage = 0; stage < schedule.size(); ++stage) {
      BackwardCutter cutter(placement, stage, first, most_held);
      for (const Action& action : schedule[stage]) cutter.add(action);
      cut.push_back(cutter.take());
      longest = std::max(longest, schedule[stage].size());
    }
    try {
      simulate(cut, uniform_costs(1, 1), links);
      return cut;
    } catch (const Error&) {
      if (most_held > longest) throw;
    }
  }
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
