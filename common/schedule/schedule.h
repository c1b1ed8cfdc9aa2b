// Pipeline schedules as data: lists of what every stage does, in order. The executor runs such a
// list, simulate.h computes when everything happens, check.h checks it, draw.h draws it. So a new
// schedule is a new list, not new code that sends and receives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// forward            runs a stage's units on the micro-batch in a slot. It reads the stage's input
//                    there, and leaves its output and what backward needs.
// backward           turns the gradient of the stage's output into that of its input, and adds the
//                    gradients of the parameters. Afterwards the slot is free.
// send_activation    sends the stage's output to the next stage, in the background
// recv_activation    receives the stage's input into the slot
// send_gradient      sends the gradient of the stage's input to the stage before, in the background
// recv_gradient      receives the gradient of the stage's output into the stage's gradient buffer
// reduce_embedding   sums the gradients of the two copies of the token embedding, which the first
//                    and the last stage hold. It is the last action of both.
//
// Other schedules could be added as follows. Zero-bubble schedules [Qi23] split backward into two
// kinds: the gradient of the input, which the stage before waits for, and that of the parameters,
// which fills bubbles and frees the slot. Interleaved schedules [Narayanan21 2.2] have several
// chunks of the model on a stage: an action would name its chunk, and the last stage would send to
// the first, which is why a message names its peer.
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

// One thing that a stage does. reduce_embedding has no micro-batch and no slot.
struct Action {
  ActionKind kind = ActionKind::forward;
  size_t micro_batch = 0;
  size_t slot = 0;  // the memory of the stage that holds the micro-batch's activations
  size_t peer = 0;  // the other stage of a message or of reduce_embedding

  bool operator==(const Action&) const = default;
};

using StageSchedule = std::vector<Action>;    // in the order in which the stage runs them
using Schedule = std::vector<StageSchedule>;  // by stage

// Sends run in the background and receives block; simulate.h says what each of them waits for.
bool is_send(ActionKind kind);
bool is_recv(ActionKind kind);

// Describes an action for messages, as in "recv_gradient of micro-batch 3 from stage 1".
std::string describe(const Action& action);

// Returns for how many micro-batches' activations the stage must have memory.
size_t num_slots(const StageSchedule& stage);

}  // namespace ladder
