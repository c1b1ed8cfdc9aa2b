#include "common/schedule/schedule.h"

#include <algorithm>

#include "kernels/runtime/check.h"

namespace ladder {

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward_input";
    case ActionKind::backward_weight:
      return "backward_weight";
    case ActionKind::send_activation:
      return "send_activation";
    case ActionKind::recv_activation:
      return "recv_activation";
    case ActionKind::send_gradient:
      return "send_gradient";
    case ActionKind::recv_gradient:
      return "recv_gradient";
    case ActionKind::reduce_embedding:
      return "reduce_embedding";
  }
  fail("no such kind of action");
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}

bool is_recv(ActionKind kind) {
  return kind == ActionKind::recv_activation || kind == ActionKind::recv_gradient;
}

bool moves_gradient(ActionKind kind) {
  return kind == ActionKind::send_gradient || kind == ActionKind::recv_gradient;
}

bool is_work(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::backward_weight || makes_gradient(kind);
}

bool makes_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

size_t link_of(size_t stage, const Action& message) {
  const size_t from = is_send(message.kind) ? stage : message.peer;
  const size_t to = is_send(message.kind) ? message.peer : stage;
  return (moves_gradient(message.kind) ? 4 : 0) + (to > from ? 2 : 0) + from % 2;
}

std::string describe(const Action& action) {
  const std::string_view name = name_of(action.kind);
  if (action.kind == ActionKind::reduce_embedding) {
    return concat(name, " with stage ", action.peer);
  }
  const std::string chunk = action.chunk == 0 ? "" : concat(" of chunk ", action.chunk);
  const std::string text = concat(name, chunk, " of micro-batch ", action.micro_batch);
  if (is_send(action.kind)) return concat(text, " to stage ", action.peer);
  if (is_recv(action.kind)) return concat(text, " from stage ", action.peer);
  return text;
}

std::string holder_of(const Action& action) {
  const std::string micro_batch = concat("micro-batch ", action.micro_batch);
  return action.chunk == 0 ? micro_batch : concat("chunk ", action.chunk, " of ", micro_batch);
}

size_t num_buffers(const StageSchedule& stage) {
  size_t buffers = 0;
  for (const Action& action : stage) buffers = std::max(buffers, action.buffer + 1);
  return buffers;
}

}  // namespace ladder
