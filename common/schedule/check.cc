#include "common/schedule/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "common/schedule/simulate.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns what stage s of p stages does with a micro-batch, in order.
StageSchedule chain_of(size_t s, size_t p) {
  StageSchedule chain;
  if (s > 0) chain.push_back({.kind = ActionKind::recv_activation, .peer = s - 1});
  chain.push_back({.kind = ActionKind::forward});
  if (s + 1 < p) {
    chain.push_back({.kind = ActionKind::send_activation, .peer = s + 1});
    chain.push_back({.kind = ActionKind::recv_gradient, .peer = s + 1});
  }
  chain.push_back({.kind = ActionKind::backward});
  if (s > 0) chain.push_back({.kind = ActionKind::send_gradient, .peer = s - 1});
  return chain;
}

// Checks the actions of one stage, one after the other.
class StageChecker {
 public:
  StageChecker(size_t stage, const Schedule& schedule, size_t num_micro_batches,
               size_t max_in_flight, std::vector<std::string>& problems)
      : stage_(stage),
        num_stages_(schedule.size()),
        actions_(schedule[stage]),
        max_in_flight_(max_in_flight),
        chain_(chain_of(stage, schedule.size())),
        progress_(num_micro_batches),
        holder_(num_slots(actions_)),
        problems_(problems) {}

  void run() {
    for (const Action& action : actions_) {
      if (action.kind == ActionKind::reduce_embedding) {
        check_reduction(action);
      } else if (action.micro_batch >= progress_.size()) {
        report(action, concat("the step has ", counted(progress_.size(), "micro-batch")));
      } else if (is_due(action)) {
        check_slot(action);
        check_gradient_buffer(action);
      }
    }
    check_end();
  }

 private:
  struct Progress {
    size_t done = 0;  // how many actions of the chain have been done
    size_t slot = 0;
    bool is_broken = false;
  };

  void report(const Action& action, const std::string& why) {
    problems_.push_back(concat("stage ", stage_, ", ", describe(action), ": ", why));
  }

  // Returns whether the action is the next one of its micro-batch's chain. The first time that it
  // is not, it adds a fault. Later actions of that micro-batch are passed over, since they would
  // only repeat the fault.
  bool is_due(const Action& action) {
    Progress& progress = progress_[action.micro_batch];
    if (progress.is_broken) return false;
    if (progress.done == chain_.size()) {
      report(action, "the micro-batch is done");
      return false;
    }
    Action due = chain_[progress.done];
    due.micro_batch = action.micro_batch;
    if (action.kind != due.kind ||
        ((is_send(due.kind) || is_recv(due.kind)) && action.peer != due.peer)) {
      report(action, concat("what is due is ", describe(due)));
      progress.is_broken = true;
      return false;
    }
    ++progress.done;
    return true;
  }

  void check_slot(const Action& action) {
    Progress& progress = progress_[action.micro_batch];
    std::optional<size_t>& holder = holder_[action.slot];
    if (action.kind == chain_.front().kind) {
      if (holder) report(action, concat("slot ", action.slot, " holds micro-batch ", *holder));
      holder = action.micro_batch;
      progress.slot = action.slot;
      if (++num_in_flight_ > max_in_flight_) {
        report(action, concat(num_in_flight_, " are in flight, allowed are ", max_in_flight_));
      }
    } else if (action.slot != progress.slot) {
      report(action, concat("slot ", action.slot, ", but it is in slot ", progress.slot));
    }
    if (action.kind == ActionKind::backward) {
      holder_[progress.slot].reset();
      --num_in_flight_;
    }
  }

  // A micro-batch's gradient enters the buffer at recv_gradient, or at backward on the last stage.
  // It leaves the buffer when it is sent, or at backward on the first stage.
  void check_gradient_buffer(const Action& action) {
    const bool is_last = stage_ + 1 == num_stages_;
    const bool fills = action.kind == (is_last ? ActionKind::backward : ActionKind::recv_gradient);
    const bool uses_up =
        action.kind == (stage_ == 0 ? ActionKind::backward : ActionKind::send_gradient);
    if (fills && gradient_) {
      report(action, concat("the gradient buffer still holds micro-batch ", *gradient_));
    }
    if (fills) gradient_ = action.micro_batch;
    if (uses_up) gradient_.reset();
  }

  void check_reduction(const Action& action) {
    const bool is_end = stage_ == 0 || stage_ + 1 == num_stages_;
    const size_t other_end = stage_ == 0 ? num_stages_ - 1 : 0;
    if (num_stages_ == 1 || !is_end || action.peer != other_end) {
      report(action, "it is between the first and the last stage");
    } else if (&action != &actions_.back()) {
      report(action, "it is not the last action");
    }
  }

  void check_end() {
    for (size_t k = 0; k < progress_.size(); ++k) {
      if (progress_[k].is_broken || progress_[k].done == chain_.size()) continue;
      Action due = chain_[progress_[k].done];
      due.micro_batch = k;
      report(due, "it is missing");
    }
    const bool is_end = stage_ == 0 || stage_ + 1 == num_stages_;
    const bool has_reduction =
        !actions_.empty() && actions_.back().kind == ActionKind::reduce_embedding;
    if (num_stages_ > 1 && is_end && !has_reduction) {
      problems_.push_back(concat("stage ", stage_, ": reduce_embedding at the end is missing"));
    }
    if (num_slots(actions_) > max_in_flight_) {
      problems_.push_back(concat("stage ", stage_, ": ", num_slots(actions_),
                                 " slots, allowed are ", max_in_flight_));
    }
  }

  size_t stage_, num_stages_;
  const StageSchedule& actions_;
  size_t max_in_flight_;
  StageSchedule chain_;
  std::vector<Progress> progress_;             // by micro-batch
  std::vector<std::optional<size_t>> holder_;  // by slot: the micro-batch in it
  std::optional<size_t> gradient_;             // the micro-batch whose gradient is in the buffer
  size_t num_in_flight_ = 0;
  std::vector<std::string>& problems_;
};

// For each sender, receiver and kind of send: the micro-batches in the order of their messages.
using Messages = std::map<std::tuple<size_t, size_t, ActionKind>, std::vector<size_t>>;

ActionKind send_of(ActionKind recv) {
  return recv == ActionKind::recv_activation ? ActionKind::send_activation
                                             : ActionKind::send_gradient;
}

void check_messages(const Schedule& schedule, std::vector<std::string>& problems) {
  Messages sent, received;
  for (size_t s = 0; s < schedule.size(); ++s) {
    for (const auto& [kind, micro_batch, slot, peer] : schedule[s]) {
      if (is_send(kind)) sent[{s, peer, kind}].push_back(micro_batch);
      if (is_recv(kind)) received[{peer, s, send_of(kind)}].push_back(micro_batch);
    }
  }
  for (const auto& [key, micro_batches] : received) sent[key];  // so that `sent` has all keys
  for (const auto& [key, ours] : sent) {
    const auto& [from, to, kind] = key;
    const std::vector<size_t>& theirs = received[key];
    const std::string between = concat("stage ", from, " to ", to, ", ", name_of(kind), ": ");
    if (ours.size() != theirs.size()) {
      problems.push_back(
          concat(between, ours.size(), " are sent and ", theirs.size(), " received"));
    }
    const auto [a, b] = std::ranges::mismatch(ours, theirs);
    if (a != ours.end() && b != theirs.end()) {
      problems.push_back(
          concat(between, "micro-batch ", *a, " is sent where ", *b, " is received"));
    }
  }
}

}  // namespace

std::vector<std::string> check_schedule(const Schedule& schedule, size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight) {
  check(max_in_flight.size() == schedule.size(), "check_schedule: one bound a stage");
  std::vector<std::string> problems;
  for (size_t s = 0; s < schedule.size(); ++s) {
    StageChecker(s, schedule, num_micro_batches, max_in_flight[s], problems).run();
  }
  check_messages(schedule, problems);
  try {
    simulate(schedule, uniform_costs(1, 1));
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
  return problems;
}

}  // namespace ladder
