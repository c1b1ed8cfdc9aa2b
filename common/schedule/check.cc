#include "common/schedule/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "common/schedule/simulate.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns what is done with a micro-batch at a virtual stage, in order. `splits`: backward runs
// in two halves. Virtual stages before `first_backward` have none.
StageSchedule chain_of(const ChunkPlacement& placement, size_t v, size_t first_backward,
                       bool splits) {
  const bool is_first = v == 0, is_last = v + 1 == placement.num_virtual_stages();
  const size_t before = is_first ? 0 : placement.chunk_of(v - 1).stage;
  const size_t after = is_last ? 0 : placement.chunk_of(v + 1).stage;
  StageSchedule chain;
  const auto add = [&](bool exists, ActionKind kind, size_t peer) {
    if (!exists) return;
    chain.push_back({.kind = kind, .peer = peer, .chunk = placement.chunk_of(v).chunk});
  };
  add(!is_first, ActionKind::recv_activation, before);
  add(true, ActionKind::forward, 0);
  add(!is_last, ActionKind::send_activation, after);
  if (v < first_backward) return chain;
  add(!is_last, ActionKind::recv_gradient, after);
  add(true, splits ? ActionKind::backward_input : ActionKind::backward, 0);
  add(v > first_backward, ActionKind::send_gradient, before);
  add(splits, ActionKind::backward_weight, 0);
  return chain;
}

// Checks the actions of one stage, one after the other.
class StageChecker {
 public:
  StageChecker(size_t stage, const Schedule& schedule, const ChunkPlacement& placement,
               size_t num_micro_batches, size_t max_in_flight, size_t first_backward,
               std::vector<std::string>& problems)
      : stage_(stage),
        placement_(placement),
        actions_(schedule[stage]),
        max_in_flight_(max_in_flight),
        num_micro_batches_(num_micro_batches),
        first_backward_(first_backward),
        holder_(num_buffers(actions_)),
        problems_(problems) {
    for (size_t chunk = 0; chunk < placement.num_chunks; ++chunk) {
      const Progress begin = {.chain = chain_of(chunk, false)};
      progress_.emplace_back(num_micro_batches, begin);
    }
  }

  void run() {
    for (const Action& action : actions_) {
      if (action.kind == ActionKind::reduce_embedding) {
        check_reduction(action);
      } else if (action.micro_batch >= num_micro_batches_) {
        report(action, concat("the step has ", counted(num_micro_batches_, "micro-batch")));
      } else if (action.chunk >= progress_.size()) {
        report(action, concat("the stage has ", counted(progress_.size(), "chunk")));
      } else if (is_due(action)) {
        check_buffer(action);
        check_gradient_buffer(action);
      }
    }
    check_end();
  }

 private:
  struct Progress {
    StageSchedule chain;
    size_t done = 0;  // how many actions of the chain have been done
    size_t buffer = 0;
    bool is_broken = false;
  };

  StageSchedule chain_of(size_t chunk, bool splits) const {
    return ladder::chain_of(placement_, virtual_stage_of(chunk), first_backward_, splits);
  }
  size_t virtual_stage_of(size_t chunk) const { return placement_.virtual_stage_at(stage_, chunk); }
  Progress& progress_of(const Action& action) {
    return progress_[action.chunk][action.micro_batch];
  }

  void report(const Action& action, const std::string& why) {
    problems_.push_back(concat("stage ", stage_, ", ", describe(action), ": ", why));
  }

  // Returns whether the action is the next one of its micro-batch's chain. The first time that it
  // is not, it adds a fault. Later actions of that micro-batch are passed over, since they would
  // only repeat the fault.
  bool is_due(const Action& action) {
    Progress& progress = progress_of(action);
    if (progress.is_broken) return false;
    if (progress.done == progress.chain.size()) {
      report(action, "the micro-batch is done");
      return false;
    }
    if (action.kind == ActionKind::backward_input &&
        progress.chain[progress.done].kind == ActionKind::backward) {
      progress.chain = chain_of(action.chunk, true);
    }
    Action due = progress.chain[progress.done];
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

  void check_buffer(const Action& action) {
    Progress& progress = progress_of(action);
    std::optional<Action>& holder = holder_[action.buffer];
    if (action.kind == progress.chain.front().kind) {
      if (holder) report(action, concat("buffer ", action.buffer, " holds ", holder_of(*holder)));
      holder = action;
      progress.buffer = action.buffer;
      if (++num_in_flight_ > max_in_flight_) {
        report(action, concat(num_in_flight_, " are in flight, allowed are ", max_in_flight_));
      }
    } else if (action.buffer != progress.buffer) {
      report(action, concat("buffer ", action.buffer, ", but it is in buffer ", progress.buffer));
    }
    const bool is_local = action.peer == stage_;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) {
      free_buffer(action.chunk, action.micro_batch);
    } else if (action.kind == ActionKind::send_activation && !is_local) {
      pass_on(action.chunk, action.micro_batch);
    } else if (action.kind == ActionKind::recv_activation && is_local) {
      pass_on(action.chunk - 1, action.micro_batch);
    }
  }

  // The output of a chunk is with the next virtual stage, or on its way. (simulate() waits for it.)
  void pass_on(size_t chunk, size_t micro_batch) {
    if (virtual_stage_of(chunk) < first_backward_) free_buffer(chunk, micro_batch);
  }
  void free_buffer(size_t chunk, size_t micro_batch) {
    holder_[progress_[chunk][micro_batch].buffer].reset();
    --num_in_flight_;
  }

  // A micro-batch's gradient enters the buffer at recv_gradient, or at backward of the last virtual
  // stage. It leaves the buffer when it is sent, or at backward of the first virtual stage.
  void check_gradient_buffer(const Action& action) {
    const size_t v = virtual_stage_of(action.chunk);
    const bool is_last = v + 1 == placement_.num_virtual_stages(),
               makes = makes_gradient(action.kind);
    const bool fills = is_last ? makes : action.kind == ActionKind::recv_gradient;
    const bool uses_up = v == first_backward_ ? makes : action.kind == ActionKind::send_gradient;
    if (fills && gradient_) {
      report(action, concat("the gradient buffer still holds ", holder_of(*gradient_)));
    }
    if (fills) gradient_ = action;
    if (uses_up) gradient_.reset();
  }

  void check_reduction(const Action& action) {
    if (!sums_embedding() || action.peer != (stage_ == 0 ? last_stage() : 0)) {
      report(action, "it is between the first and the last stage");
    } else if (&action != &actions_.back()) {
      report(action, "it is not the last action");
    }
  }

  size_t last_stage() const {
    return placement_.chunk_of(placement_.num_virtual_stages() - 1).stage;
  }
  // Returns whether this stage has the first or the last virtual stage, another stage the other
  // one, and both have backward.
  bool sums_embedding() const {
    return first_backward_ == 0 && last_stage() != 0 && (stage_ == 0 || stage_ == last_stage());
  }

  void check_end() {
    for (const std::vector<Progress>& micro_batches : progress_) {
      for (size_t k = 0; k < micro_batches.size(); ++k) {
        const auto& [chain, done, buffer, is_broken] = micro_batches[k];
        if (is_broken || done == chain.size()) continue;
        Action due = chain[done];
        due.micro_batch = k;
        report(due, "it is missing");
      }
    }
    const bool has_reduction =
        !actions_.empty() && actions_.back().kind == ActionKind::reduce_embedding;
    if (sums_embedding() && !has_reduction) {
      problems_.push_back(concat("stage ", stage_, ": reduce_embedding at the end is missing"));
    }
    if (num_buffers(actions_) > max_in_flight_) {
      problems_.push_back(concat("stage ", stage_, ": ", num_buffers(actions_),
                                 " buffers, allowed are ", max_in_flight_));
    }
  }

  size_t stage_;
  ChunkPlacement placement_;
  const StageSchedule& actions_;
  size_t max_in_flight_, num_micro_batches_, first_backward_;
  std::vector<std::vector<Progress>> progress_;  // by chunk and micro-batch
  std::vector<std::optional<Action>> holder_;    // by buffer: the action that has put something in
  std::optional<Action> gradient_;               // the action that has filled the gradient buffer
  size_t num_in_flight_ = 0;
  std::vector<std::string>& problems_;
};

std::vector<std::string> check_with(Links links, const Schedule& schedule,
                                    const ChunkPlacement& placement, size_t num_micro_batches,
                                    const std::vector<size_t>& max_in_flight,
                                    size_t first_backward) {
  check(max_in_flight.size() == schedule.size(), "check_schedule: one bound a stage");
  check(placement.num_stages == schedule.size(), "check_schedule: another number of stages");
  std::vector<std::string> problems;
  for (size_t s = 0; s < schedule.size(); ++s) {
    StageChecker(s, schedule, placement, num_micro_batches, max_in_flight[s], first_backward,
                 problems)
        .run();
  }
  const std::vector<std::string> of_messages = check_messages(schedule, placement);
  problems.insert(problems.end(), of_messages.begin(), of_messages.end());
  try {
    simulate(schedule, uniform_costs(1, 1), links);
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
  return problems;
}

}  // namespace

std::vector<std::string> check_schedule(const Schedule& schedule, const ChunkPlacement& placement,
                                        size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight,
                                        size_t first_backward) {
  return check_with(Links::many, schedule, placement, num_micro_batches, max_in_flight,
                    first_backward);
}

std::vector<std::string> check_schedule(const Schedule& schedule, size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight) {
  return check_with(Links::few, schedule, {.num_stages = schedule.size()}, num_micro_batches,
                    max_in_flight, 0);
}

}  // namespace ladder
