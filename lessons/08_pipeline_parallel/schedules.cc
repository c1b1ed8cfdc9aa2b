#include "lessons/08_pipeline_parallel/schedules.h"

#include <algorithm>
#include <array>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns how many forwards a stage runs before forward and backward take turns. The schedules
// differ in nothing else. 1F1B runs one for each stage after this one, which keeps them all busy.
size_t num_warm_up(ScheduleKind kind, size_t stage, size_t p, size_t m) {
  if (kind == ScheduleKind::naive) return 0;
  return kind == ScheduleKind::gpipe ? m : p - 1 - stage;
}

void add_forward(StageSchedule& actions, size_t k, size_t buffer, size_t stage, size_t p) {
  if (stage > 0) actions.push_back({ActionKind::recv_activation, k, buffer, stage - 1});
  actions.push_back({ActionKind::forward, k, buffer});
  if (stage + 1 < p) actions.push_back({ActionKind::send_activation, k, buffer, stage + 1});
}

void add_backward(StageSchedule& actions, size_t k, size_t buffer, size_t stage, size_t p) {
  if (stage + 1 < p) actions.push_back({ActionKind::recv_gradient, k, buffer, stage + 1});
  actions.push_back({ActionKind::backward, k, buffer});
  if (stage > 0) actions.push_back({ActionKind::send_gradient, k, buffer, stage - 1});
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"naive", "gpipe", "1f1b"};
  return kNames.at(static_cast<size_t>(kind));
}

size_t max_in_flight(ScheduleKind kind, size_t stage, size_t p, size_t m) {
  return std::min(num_warm_up(kind, stage, p, m) + 1, m);
}

Schedule make_schedule(ScheduleKind kind, size_t p, size_t m, bool reduces_embedding) {
  check(p > 0 && m > 0, "make_schedule: there must be a stage and a micro-batch");
  Schedule schedule(p);
  for (size_t stage = 0; stage < p; ++stage) {
    StageSchedule& actions = schedule[stage];
    const size_t warm_up = num_warm_up(kind, stage, p, m);
    const size_t buffers = max_in_flight(kind, stage, p, m);
    for (size_t k = 0; k < m + warm_up; ++k) {
      if (k < m) add_forward(actions, k, k % buffers, stage, p);
      if (k >= warm_up) add_backward(actions, k - warm_up, (k - warm_up) % buffers, stage, p);
    }
  }
  if (p > 1 && reduces_embedding) {
    schedule.front().push_back({.kind = ActionKind::reduce_embedding, .peer = p - 1});
    schedule.back().push_back({.kind = ActionKind::reduce_embedding, .peer = 0});
  }
  return schedule;
}

}  // namespace ladder
