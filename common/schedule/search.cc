#include "common/schedule/search.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "common/schedule/check.h"
#include "common/schedule/greedy.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<GreedyRule> all_rules() {
  std::vector<GreedyRule> rules;
  for (bool prefers_forward : {false, true}) {
    for (size_t warm_up = 0; warm_up <= 2; ++warm_up) {
      for (size_t extra = 0; extra < (warm_up == 0 ? 1 : 2); ++extra) {
        rules.push_back({.splits = false,
                         .prefers_forward = prefers_forward,
                         .warm_up = warm_up,
                         .extra = extra});
        for (double patience : {0.0, 0.5, 1.0}) {
          rules.push_back({true, patience, prefers_forward, warm_up, extra});
        }
      }
    }
  }
  for (double first_wait : {0.25, 0.5, 1.0}) {
    for (bool spares_last : {false, true}) {
      rules.push_back({.first_wait = first_wait, .spares_last = spares_last});
    }
  }
  return rules;
}

bool is_same_row(const Action& a, const Action& b) {
  return a.chunk == b.chunk && (a.kind == b.kind || a.micro_batch == b.micro_batch);
}

// Moves the action at `from` to `to`. Returns whether that kept the order within each row: of a
// kind of work on a chunk, and of the work for a micro-batch on a chunk.
bool move_action(StageSchedule& stage, size_t from, size_t to) {
  const Action action = stage[from];
  const size_t first = std::min(from, to), last = std::max(from, to);
  for (size_t i = first; i <= last; ++i) {
    if (i != from && is_same_row(stage[i], action)) return false;
  }
  const auto begin = stage.begin();
  const auto at = [&](size_t i) { return begin + static_cast<ptrdiff_t>(i); };
  if (from < to) {
    std::rotate(at(from), at(from) + 1, at(to) + 1);
  } else {
    std::rotate(at(to), at(from), at(from) + 1);
  }
  return true;
}

// Returns the buffers that a stage needs for its work.
double most_held(const StageSchedule& work, double kept_for_weights) {
  Held held;
  double most = 0;
  for (const Action& action : work) {
    held.add(action.kind);
    most = std::max(most, held.buffers(kept_for_weights));
  }
  return most;
}

// What lists are compared by, in this order: the time, and the buffers of all stages.
using Price = std::pair<double, double>;

Price price_of(const ScheduleProblem& problem, const Schedule& work) {
  double buffers = 0;
  for (size_t s = 0; s < work.size(); ++s) {
    const double own = most_held(work[s], problem.kept_for_weights);
    if (own > static_cast<double>(problem.max_buffers[s])) return {kInfinity, 0};
    buffers += own;
  }
  const Schedule schedule = complete(work, problem.placement, false);
  if (!check_messages(schedule, problem.placement).empty()) return {kInfinity, 0};
  const Costs costs = costs_of(problem.placement, problem.times, problem.message);
  try {
    const Timeline timeline = simulate(schedule, costs, problem.links);
    return {
        problem.ends_together ? extent_of(timeline).length() : longest_stage(schedule, timeline),
        buffers};
  } catch (const Error&) {
    return {kInfinity, 0};  // stages wait for each other
  }
}

}  // namespace

double time_of(const ScheduleProblem& problem, const Schedule& work) {
  return price_of(problem, work).first;
}

Schedule find_work(const ScheduleProblem& problem, const std::vector<Schedule>& known,
                   size_t max_trials) {
  check(problem.max_buffers.size() == problem.placement.num_stages, "find_work: buffers by stage");
  Schedule best;
  Price lowest = {kInfinity, 0};
  const auto consider = [&](Schedule work) {
    if (work.empty()) return;
    const Price price = price_of(problem, work);
    if (price.first == kInfinity || price > lowest) return;
    best = std::move(work);
    lowest = price;
  };
  for (const GreedyRule& rule : all_rules()) {
    if (problem.splits || !rule.splits) consider(greedy_work(problem, rule));
  }
  for (const Schedule& work : known) consider(work);
  if (best.empty()) return best;
  std::mt19937 random(1);
  const auto draw = [&](size_t count) { return static_cast<size_t>(random() % count); };
  for (size_t trial = 0; trial < max_trials; ++trial) {
    Schedule work = best;
    StageSchedule& stage = work[draw(work.size())];
    const size_t from = draw(stage.size()), reach = 1 + draw(6);
    const size_t to =
        draw(2) == 0 ? from - std::min(from, reach) : std::min(stage.size() - 1, from + reach);
    // Lists that are as good are taken too: they may lead to better ones.
    if (from != to && move_action(stage, from, to)) consider(std::move(work));
  }
  return best;
}

}  // namespace ladder
