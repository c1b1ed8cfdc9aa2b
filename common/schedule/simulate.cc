#include "common/schedule/simulate.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

struct Channel {
  std::deque<size_t> outstanding;  // actions that the stage has begun and that are not completed
  double free_at = 0;              // the time at which the last completed action ended
};

// Channels from this one on are for gradients.
constexpr size_t kGradientChannels = kNumLinks / 2;

struct Stage {
  size_t next = 0;   // the next action
  double clock = 0;  // the time at which the stage can begin it
  std::array<Channel, kNumLinks> channels;
  // The messages to itself that it has not received: kind of the send, micro-batch, sending chunk.
  std::set<std::tuple<ActionKind, size_t, size_t>> kept;
  // Eager messages that it has not received: by sender and kind when each is there, in order.
  std::map<std::pair<size_t, bool>, std::deque<double>> arrivals;
  std::map<size_t, size_t> leaving;  // by activation buffer: the action that last sent from it

  bool is_quiet(size_t first_channel = 0) const {
    return std::all_of(channels.begin() + static_cast<ptrdiff_t>(first_channel), channels.end(),
                       [](const Channel& channel) { return channel.outstanding.empty(); });
  }
  // Returns the time at which all channels from this one on have completed what they have done.
  double quiet_at(size_t first_channel = 0) const {
    double time = 0;
    for (size_t i = first_channel; i < kNumLinks; ++i) {
      time = std::max(time, channels[i].free_at);
    }
    return time;
  }
};

// The simulation visits the stages again and again, and runs each until it needs another stage. All
// times are maxima and sums along the orders of stages and channels, so they do not depend on the
// order of the visits.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const Costs& costs, Links links)
      : schedule_(schedule),
        costs_(costs),
        has_few_links_(links == Links::few),
        is_eager_(links == Links::eager),
        stages_(schedule.size()) {
    for (const StageSchedule& stage : schedule) timeline_.emplace_back(stage.size());
  }

  Timeline run() {
    for (bool moved = true; std::exchange(moved, false);) {
      for (size_t s = 0; s < stages_.size(); ++s) {
        while (transfer_any(s) || advance(s)) moved = true;
      }
    }
    const auto is_done = [&](size_t s) {
      const auto& arrivals = stages_[s].arrivals;
      return !next_action(s) && stages_[s].is_quiet() && stages_[s].kept.empty() &&
             std::ranges::all_of(arrivals, [](const auto& from) { return from.second.empty(); });
    };
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
        return take_buffer(s, *action) && compute(s, stage.clock);
      case ActionKind::backward_weight:
        return compute(s, stage.clock);
      case ActionKind::backward:
      case ActionKind::backward_input:
        return has_gradient_buffer(stage) && compute(s, gradient_buffer_at(stage));
      case ActionKind::reduce_embedding:
        return reduce(s, *action);
      case ActionKind::recv_activation:
        if (!take_buffer(s, *action)) return false;
        [[fallthrough]];
      default:
        if (action->peer == s) return keep_message(s, *action);
        return is_eager_ ? pass_message(s, *action) : begin_message(s, *action);
    }
  }

  // Waits until what has been sent from the action's activation buffer has gone. Returns false if
  // it has not begun to.
  bool take_buffer(size_t s, const Action& action) {
    Stage& stage = stages_[s];
    const auto last = stage.leaving.find(action.buffer);
    if (last == stage.leaving.end()) return true;
    const std::deque<size_t>& outstanding =
        stage.channels[channel_of(s, schedule_[s][last->second])].outstanding;
    if (std::ranges::find(outstanding, last->second) != outstanding.end()) return false;
    stage.clock = std::max(stage.clock, timeline_[s][last->second].end);
    stage.leaving.erase(last);
    return true;
  }

  // Return whether the gradient buffer may be overwritten, and from when on.
  bool has_gradient_buffer(const Stage& stage) const {
    return !has_few_links_ || stage.is_quiet(kGradientChannels);
  }
  double gradient_buffer_at(const Stage& stage) const {
    return has_few_links_ ? std::max(stage.clock, stage.quiet_at(kGradientChannels)) : stage.clock;
  }

  size_t channel_of(size_t s, const Action& message) const {
    const size_t link = link_of(s, message);
    return has_few_links_ ? link / kGradientChannels * kGradientChannels : link;
  }

  bool compute(size_t s, double begin) {
    Stage& stage = stages_[s];
    stage.clock = begin + costs_(s, schedule_[s][stage.next]);
    timeline_[s][stage.next++] = {begin, stage.clock};
    return true;
  }

  // Sends a message to the stage itself, or receives it.
  bool keep_message(size_t s, const Action& action) {
    Stage& stage = stages_[s];
    if (is_send(action.kind)) {
      stage.kept.insert({action.kind, action.micro_batch, action.chunk});
    } else {
      const bool is_gradient = moves_gradient(action.kind);
      const ActionKind send = is_gradient ? ActionKind::send_gradient : ActionKind::send_activation;
      const size_t sender = is_gradient ? action.chunk + 1 : action.chunk - 1;
      if (is_gradient && !has_gradient_buffer(stage)) return false;
      if (stage.kept.erase({send, action.micro_batch, sender}) == 0) return false;
      if (is_gradient) stage.clock = gradient_buffer_at(stage);
    }
    timeline_[s][stage.next++] = {stage.clock, stage.clock};
    return true;
  }

  // Sends or receives a message that waits for nobody.
  bool pass_message(size_t s, const Action& action) {
    check_peer(action.peer < stages_.size(), s, action);
    Stage& stage = stages_[s];
    Span& span = timeline_[s][stage.next];
    const bool is_gradient = moves_gradient(action.kind);
    if (is_send(action.kind)) {
      span = {stage.clock, stage.clock + costs_(s, action)};
      stages_[action.peer].arrivals[{s, is_gradient}].push_back(span.end);
    } else {
      std::deque<double>& arrivals = stage.arrivals[{action.peer, is_gradient}];
      if (arrivals.empty()) return false;
      span = {stage.clock, std::max(stage.clock, arrivals.front())};
      arrivals.pop_front();
      stage.clock = span.end;
    }
    ++stage.next;
    return true;
  }

  bool begin_message(size_t s, const Action& action) {
    check_peer(action.peer < stages_.size(), s, action);
    Stage& stage = stages_[s];
    Channel& channel = stage.channels[channel_of(s, action)];
    std::deque<size_t>& outstanding = channel.outstanding;
    if (!outstanding.empty() && outstanding.back() == stage.next) return false;  // already begun
    if (action.kind == ActionKind::recv_gradient && !has_gradient_buffer(stage)) return false;
    if (action.kind == ActionKind::send_gradient && !has_few_links_) {
      if (!outstanding.empty()) return false;
      stage.clock = std::max(stage.clock, channel.free_at);
    }
    if (action.kind == ActionKind::send_activation) stage.leaving[action.buffer] = stage.next;
    outstanding.push_back(stage.next);
    timeline_[s][stage.next].begin = stage.clock;
    if (is_send(action.kind)) ++stage.next;
    return true;
  }

  bool transfer_any(size_t s) {
    for (size_t channel = 0; channel < kNumLinks; ++channel) {
      if (transfer(s, channel)) return true;
    }
    return false;
  }

  // Completes the message at the head of a channel of stage s, if it is a send and its receive is
  // at the head of the peer's.
  bool transfer(size_t s, size_t channel) {
    Channel& from = stages_[s].channels[channel];
    if (from.outstanding.empty()) return false;
    const size_t sent = from.outstanding.front();
    const Action& send = schedule_[s][sent];
    Channel& to = stages_[send.peer].channels[channel];
    if (!is_send(send.kind) || to.outstanding.empty()) return false;
    const size_t received = to.outstanding.front();
    const Action& recv = schedule_[send.peer][received];
    if (!is_recv(recv.kind) || recv.peer != s) return false;
    Span& send_span = timeline_[s][sent];
    Span& recv_span = timeline_[send.peer][received];
    const double buffer_free_at =
        moves_gradient(recv.kind) ? gradient_buffer_at(stages_[send.peer]) : recv_span.begin;
    const double begin =
        std::max({send_span.begin, from.free_at, recv_span.begin, to.free_at, buffer_free_at});
    send_span.end = recv_span.end = from.free_at = to.free_at = begin + costs_(s, send);
    from.outstanding.pop_front();
    to.outstanding.pop_front();
    stages_[send.peer].clock = recv_span.end;
    ++stages_[send.peer].next;
    return true;
  }

  bool reduce(size_t s, const Action& action) {
    check_peer(action.peer < stages_.size() && action.peer != s, s, action);
    Stage &stage = stages_[s], &other = stages_[action.peer];
    const Action* const peer_action = next_action(action.peer);
    if (peer_action == nullptr || peer_action->kind != action.kind || peer_action->peer != s ||
        !stage.is_quiet() || !other.is_quiet()) {
      return false;
    }
    const double begin = std::max({stage.clock, stage.quiet_at(), other.clock, other.quiet_at()});
    const double end = begin + std::max(costs_(s, action), costs_(action.peer, *peer_action));
    timeline_[s][stage.next++] = {stage.clock, end};
    timeline_[action.peer][other.next++] = {other.clock, end};
    stage.clock = other.clock = end;
    return true;
  }

  void check_peer(bool is_right, size_t s, const Action& action) const {
    if (is_right) return;
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
      for (const auto& [kind, micro_batch, chunk] : stages_[s].kept) {
        const Action send = {.kind = kind, .micro_batch = micro_batch, .peer = s, .chunk = chunk};
        text += concat(", ", describe(send), " is not received");
      }
      for (const auto& [from, waiting] : stages_[s].arrivals) {
        if (waiting.empty()) continue;
        text += concat(", ", waiting.size(), " from stage ", from.first, " are not received");
      }
      for (const Channel& channel : stages_[s].channels) {
        if (channel.outstanding.empty()) continue;
        const Action& head = schedule_[s][channel.outstanding.front()];
        if (is_send(head.kind)) text += concat(", ", describe(head), " is not received");
      }
    }
    return text;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  bool has_few_links_, is_eager_;
  std::vector<Stage> stages_;
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Schedule& schedule, const Costs& costs, Links links) {
  return Simulation(schedule, costs, links).run();
}

}  // namespace ladder
