// Schedules written as lines of text, one a stage: "F0 F1 B0 B1".
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "common/schedule/schedule.h"
#include "kernels/runtime/check.h"

namespace ladder {

// F and B are forward and backward of a micro-batch with the messages before and after them, whose
// other ends are the neighbours. Micro-batch k is in buffer k. With two stages or more the first
// and the last end with reduce_embedding.
inline Schedule schedule_of(const std::vector<std::string>& lines) {
  const size_t p = lines.size();
  Schedule schedule(p);
  for (size_t s = 0; s < p; ++s) {
    StageSchedule& stage = schedule[s];
    std::istringstream words(lines[s]);
    for (std::string word; words >> word;) {
      const size_t k = std::stoul(word.substr(1));
      const bool is_forward = word[0] == 'F';
      using enum ActionKind;
      const bool has_source = is_forward ? s > 0 : s + 1 < p;
      const bool has_target = is_forward ? s + 1 < p : s > 0;
      const size_t source = is_forward ? s - 1 : s + 1, target = is_forward ? s + 1 : s - 1;
      if (has_source) stage.push_back({is_forward ? recv_activation : recv_gradient, k, k, source});
      stage.push_back({is_forward ? forward : backward, k, k});
      if (has_target) stage.push_back({is_forward ? send_activation : send_gradient, k, k, target});
    }
  }
  if (p > 1) {
    schedule.front().push_back({.kind = ActionKind::reduce_embedding, .peer = p - 1});
    schedule.back().push_back({.kind = ActionKind::reduce_embedding, .peer = 0});
  }
  return schedule;
}

// The place of an action in a stage.
inline size_t index_of(const StageSchedule& stage, ActionKind kind, size_t micro_batch = 0) {
  for (size_t i = 0; i < stage.size(); ++i) {
    if (stage[i].kind == kind && stage[i].micro_batch == micro_batch) return i;
  }
  fail("no such action");
}

// Each stage runs ahead of the last one and then takes turns: 1F1B with 3 stages, 4 micro-batches.
inline Schedule good_schedule() {
  return schedule_of(
      {"F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"});
}

}  // namespace ladder
