#include "common/schedule/simulate.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Channel {
  std::deque<size_t> outstanding;  // actions that the stage has begun and that are not completed
  double free_at = 0;              // the time at which the last completed action ended
};

struct Stage {
  size_t next = 0;   // the next action
  double clock = 0;  // the time at which the stage can begin it
  Channel activations, gradients;

  Channel& channel_of(ActionKind kind) {
    const bool is_gradient = kind == ActionKind::send_gradient || kind == ActionKind::recv_gradient;
    return is_gradient ? gradients : activations;
  }
  bool has_sent_all() const {
    return activations.outstanding.empty() && gradients.outstanding.empty();
  }
};

// The simulation visits the stages again and again, and runs each until it needs another stage. All
// times are maxima and sums along the orders of stages and channels, so they do not depend on the
// order of the visits.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), stages_(schedule.size()) {
    for (const StageSchedule& stage : schedule) timeline_.emplace_back(stage.size());
  }

  Timeline run() {
    for (bool moved = true; std::exchange(moved, false);) {
      for (size_t s = 0; s < stages_.size(); ++s) {
        while (transfer(s, ActionKind::send_activation) || transfer(s, ActionKind::send_gradient) ||
               advance(s)) {
          moved = true;
        }
      }
    }
    const auto is_done = [&](size_t s) { return !next_action(s) && stages_[s].has_sent_all(); };
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (!is_done(s)) throw Error(deadlock());
    }
    return std::move(timeline_);
  }

 private:
  const Action* next_action(size_t s) const {
    return stages_[s].next < schedule_[s].size() ? &schedule_[s][stages_[s].next] : nullptr;
  }

  // Runs the next action of stage s, or begins it if it is a receive. Returns false if it must
  // wait.
  bool advance(size_t s) {
    const Action* const action = next_action(s);
    if (action == nullptr) return false;
    Stage& stage = stages_[s];
    switch (action->kind) {
      case ActionKind::forward:
        return compute(s, stage.clock);
      case ActionKind::backward:
        return stage.gradients.outstanding.empty() &&
               compute(s, std::max(stage.clock, stage.gradients.free_at));
      case ActionKind::reduce_embedding:
        return reduce(s, *action);
      default:
        return begin_message(s, *action);
    }
  }

  bool compute(size_t s, double begin) {
    Stage& stage = stages_[s];
    stage.clock = begin + costs_(s, schedule_[s][stage.next].kind);
    timeline_[s][stage.next++] = {begin, stage.clock};
    return true;
  }

  bool begin_message(size_t s, const Action& action) {
    check_peer(s, action);
    Stage& stage = stages_[s];
    std::deque<size_t>& outstanding = stage.channel_of(action.kind).outstanding;
    if (!outstanding.empty() && outstanding.back() == stage.next) return false;  // already begun
    outstanding.push_back(stage.next);
    timeline_[s][stage.next].begin = stage.clock;
    if (is_send(action.kind)) ++stage.next;
    return true;
  }

  // Completes the message at the head of one of stage s's channels, if it is a send of this kind
  // and its receive is at the head of the peer's.
  bool transfer(size_t s, ActionKind kind) {
    Channel& from = stages_[s].channel_of(kind);
    if (from.outstanding.empty()) return false;
    const size_t sent = from.outstanding.front();
    const Action& send = schedule_[s][sent];
    Channel& to = stages_[send.peer].channel_of(kind);
    if (send.kind != kind || to.outstanding.empty()) return false;
    const size_t received = to.outstanding.front();
    const Action& recv = schedule_[send.peer][received];
    if (!is_recv(recv.kind) || recv.peer != s) return false;
    Span& send_span = timeline_[s][sent];
    Span& recv_span = timeline_[send.peer][received];
    const double begin = std::max({send_span.begin, from.free_at, recv_span.begin, to.free_at});
    send_span.end = recv_span.end = from.free_at = to.free_at = begin + costs_(s, kind);
    from.outstanding.pop_front();
    to.outstanding.pop_front();
    stages_[send.peer].clock = recv_span.end;
    ++stages_[send.peer].next;
    return true;
  }

  bool reduce(size_t s, const Action& action) {
    check_peer(s, action);
    Stage &stage = stages_[s], &other = stages_[action.peer];
    const Action* const peer_action = next_action(action.peer);
    if (peer_action == nullptr || peer_action->kind != action.kind || peer_action->peer != s ||
        !stage.has_sent_all() || !other.has_sent_all()) {
      return false;
    }
    const double begin =
        std::max({stage.clock, stage.activations.free_at, stage.gradients.free_at, other.clock,
                  other.activations.free_at, other.gradients.free_at});
    const double end = begin + std::max(costs_(s, action.kind), costs_(action.peer, action.kind));
    timeline_[s][stage.next++] = {stage.clock, end};
    timeline_[action.peer][other.next++] = {other.clock, end};
    stage.clock = other.clock = end;
    return true;
  }

  void check_peer(size_t s, const Action& action) const {
    if (action.peer < stages_.size() && action.peer != s) return;
    throw Error(concat("stage ", s, " of ", stages_.size(), ": ", describe(action),
                       ", which is no other stage"));
  }

  std::string deadlock() {
    std::string text = "deadlock: ";
    for (size_t s = 0; s < stages_.size(); ++s) {
      const Action* const action = next_action(s);
      text +=
          concat(s == 0 ? "stage " : "; stage ", s, action != nullptr ? " waits in " : " is done",
                 action != nullptr ? describe(*action) : "");
      for (const Channel* channel : {&stages_[s].activations, &stages_[s].gradients}) {
        if (channel->outstanding.empty()) continue;
        const Action& head = schedule_[s][channel->outstanding.front()];
        if (is_send(head.kind)) text += concat(", ", describe(head), " is not received");
      }
    }
    return text;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<Stage> stages_;
  Timeline timeline_;
};

}  // namespace

Costs uniform_costs(double forward, double backward, double message) {
  return [=](size_t, ActionKind kind) {
    if (kind == ActionKind::forward) return forward;
    return kind == ActionKind::backward ? backward : message;
  };
}

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  return Simulation(schedule, costs).run();
}

Span extent_of(const Timeline& timeline) {
  Span extent{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const std::vector<Span>& stage : timeline) {
    for (const Span& span : stage) {
      extent = {std::min(extent.begin, span.begin), std::max(extent.end, span.end)};
    }
  }
  check(extent.begin <= extent.end, "the timeline is empty");
  return extent;
}

Bubble bubble_of(const Schedule& schedule, const Timeline& timeline) {
  const double total = extent_of(timeline).length();
  Bubble bubble;
  for (size_t s = 0; s < schedule.size(); ++s) {
    double busy = 0;
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      const ActionKind kind = schedule[s][i].kind;
      const bool is_work = kind == ActionKind::forward || kind == ActionKind::backward;
      if (is_work) busy += timeline[s][i].length();
    }
    // Rounding may make `busy` a little more than the total; the share must not become negative.
    bubble.idle.push_back(total > 0 ? std::max(0.0, 1 - busy / total) : 0);
    bubble.overall += bubble.idle.back() / static_cast<double>(schedule.size());
  }
  return bubble;
}

}  // namespace ladder
