#include "common/schedule/csv.h"

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

char letter_of(ActionKind kind) {
  if (kind == ActionKind::backward_input) return 'I';
  if (kind == ActionKind::backward_weight) return 'W';
  return kind == ActionKind::forward ? 'F' : 'B';
}

}  // namespace

std::string csv_of(const Schedule& schedule, const ChunkPlacement& placement) {
  std::string text;
  for (size_t s = 0; s < schedule.size(); ++s) {
    std::string line;
    for (const Action& action : schedule[s]) {
      if (!is_work(action.kind)) continue;
      line += concat(line.empty() ? "" : ",", placement.virtual_stage_at(s, action.chunk),
                     letter_of(action.kind), action.micro_batch);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace ladder
