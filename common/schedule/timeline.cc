#include "common/schedule/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "kernels/runtime/check.h"

namespace ladder {

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

HeldOverTime held_over_time(const StageSchedule& stage, const std::vector<Span>& spans) {
  std::map<double, int> changes;
  std::set<size_t> chunks;  // with backward
  for (const Action& action : stage) {
    if (makes_gradient(action.kind)) chunks.insert(action.chunk);
  }
  for (size_t i = 0; i < stage.size(); ++i) {
    const ActionKind kind = stage[i].kind;
    if (kind == ActionKind::forward) ++changes[spans[i].begin];
    const bool is_last = chunks.contains(stage[i].chunk)
                             ? kind == ActionKind::backward || kind == ActionKind::backward_weight
                             : kind == ActionKind::send_activation;
    if (is_last) --changes[spans[i].end];
  }
  HeldOverTime held;
  int count = 0;
  for (const auto& [time, change] : changes) held.emplace_back(time, count += change);
  return held;
}

Bubble bubble_of(const Schedule& schedule, const Timeline& timeline) {
  const double total = extent_of(timeline).length();
  Bubble bubble;
  for (size_t s = 0; s < schedule.size(); ++s) {
    double busy = 0;
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      if (is_work(schedule[s][i].kind)) busy += timeline[s][i].length();
    }
    // Rounding may make `busy` a little more than the total; the share must not become negative.
    bubble.idle.push_back(total > 0 ? std::max(0.0, 1 - busy / total) : 0);
    bubble.overall += bubble.idle.back() / static_cast<double>(schedule.size());
  }
  return bubble;
}

double longest_stage(const Schedule& schedule, const Timeline& timeline) {
  double longest = 0;
  for (size_t s = 0; s < schedule.size(); ++s) {
    Timeline work(1);
    for (size_t i = 0; i < schedule[s].size(); ++i) {
      if (is_work(schedule[s][i].kind)) work[0].push_back(timeline[s][i]);
    }
    if (!work[0].empty()) longest = std::max(longest, extent_of(work).length());
  }
  return longest;
}

}  // namespace ladder
