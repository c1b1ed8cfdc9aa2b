#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/schedule/check.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// What a message carries: the chunk of the virtual stage that it leaves (activations) or reaches
// (gradients), and the micro-batch.
using Content = std::pair<size_t, size_t>;
// For each sender, receiver and kind of send: the contents in the order of the messages.
using Messages = std::map<std::tuple<size_t, size_t, ActionKind>, std::vector<Content>>;

std::string text_of(const Content& content) {
  return holder_of({.micro_batch = content.second, .chunk = content.first});
}

ActionKind send_of(ActionKind recv) {
  return recv == ActionKind::recv_activation ? ActionKind::send_activation
                                             : ActionKind::send_gradient;
}

// Returns the chunk of the virtual stage before the boundary that a message of stage s crosses.
size_t chunk_before(const ChunkPlacement& placement, size_t s, const Action& message) {
  const bool is_before =
      message.kind == ActionKind::send_activation || message.kind == ActionKind::recv_gradient;
  const size_t v = placement.virtual_stage_at(s, message.chunk);
  return is_before || v == 0 ? message.chunk : placement.chunk_of(v - 1).chunk;
}

}  // namespace

// simulate() checks messages from a stage to itself.
std::vector<std::string> check_messages(const Schedule& schedule, const ChunkPlacement& placement) {
  std::vector<std::string> problems;
  Messages sent, received;
  for (size_t s = 0; s < schedule.size(); ++s) {
    for (const Action& action : schedule[s]) {
      const auto& [kind, micro_batch, buffer, peer, chunk] = action;
      if (peer == s || !(is_send(kind) || is_recv(kind))) continue;
      const Content content = {chunk_before(placement, s, action), micro_batch};
      if (is_send(kind)) sent[{s, peer, kind}].push_back(content);
      if (is_recv(kind)) received[{peer, s, send_of(kind)}].push_back(content);
    }
  }
  for (const auto& [key, contents] : received) sent[key];  // so that `sent` has all keys
  for (const auto& [key, ours] : sent) {
    const auto& [from, to, kind] = key;
    const std::vector<Content>& theirs = received[key];
    const std::string between = concat("stage ", from, " to ", to, ", ", name_of(kind), ": ");
    if (ours.size() != theirs.size()) {
      problems.push_back(
          concat(between, ours.size(), " are sent and ", theirs.size(), " received"));
    }
    const auto [a, b] = std::ranges::mismatch(ours, theirs);
    if (a != ours.end() && b != theirs.end()) {
      problems.push_back(
          concat(between, text_of(*a), " is sent where ", text_of(*b), " is received"));
    }
  }
  return problems;
}

}  // namespace ladder
