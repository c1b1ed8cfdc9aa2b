// Pipeline schedules as data: what every stage does, in which order. One list has four users: the
// executor runs it, simulate.h computes when everything happens, check.h proves it right, draw.h
// shows it. So a new schedule is a new list, not new code that sends and receives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// forward            runs a stage's units on a micro-batch: reads the received activations, leaves
//                    its own, and what backward needs, in the slot
// backward           turns the gradient of the stage's output into that of its input and adds the
//                    gradients of its parameters; the slot is free then
// send_activation    the stage's output, to the stage that goes on with it; in the background
// recv_activation    the stage's input, into the slot
// send_gradient      the gradient of the stage's input, to where that came from; in the background
// recv_gradient      the gradient of the stage's output, into the stage's one gradient buffer
// reduce_embedding   sums the gradients of the two copies of the token embedding, on the first and
//                    on the last stage; the last action of both
//
// Schedules to come fit in as follows. Zero-bubble ones [Qi23] split backward into two kinds: the
// gradient of the input, which the stage before waits for, and that of the parameters, which fills
// bubbles and frees the slot. Interleaved ones [Narayanan21 2.2] have several chunks of the model
// on a stage: an action names its chunk, and the last stage sends on to the first, which is why a
// message names its peer.
enum class ActionKind {
  forward,
  backward,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
  reduce_embedding,
};
std::string_view name_of(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::forward;
  size_t micro_batch = 0;  // all but reduce_embedding
  size_t slot = 0;         // which activation memory of the stage holds the micro-batch; the same
  size_t peer = 0;         // the other stage of a message or of reduce_embedding

  bool operator==(const Action&) const = default;
};

using StageSchedule = std::vector<Action>;    // in the order in which the stage runs them
using Schedule = std::vector<StageSchedule>;  // by stage

// Are they in the background, and what do they wait for: simulate.h.
bool is_send(ActionKind kind);
bool is_recv(ActionKind kind);

// "recv_gradient of micro-batch 3 from stage 1", for messages.
std::string describe(const Action& action);

// How many micro-batches' activations the stage must have memory for.
size_t num_slots(const StageSchedule& stage);

}  // namespace ladder
