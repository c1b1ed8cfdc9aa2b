// Pipeline schedules as data: lists of what every stage does, in order. The executor runs such a
// list, simulate.h computes when everything happens, check.h checks it, draw.h draws it. So a new
// schedule is a new list, not new code that sends and receives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// forward            runs a stage's units on the micro-batch in a buffer. It reads the stage's
// input
//                    there, and leaves its output and what backward needs.
// backward           turns the gradient of the stage's output into that of its input, and adds the
//                    gradients of the parameters. Afterwards the buffer is free.
// backward_input     does the first half of backward, for which the stage before waits: the
//                    gradient of the input. It leaves in the buffer what the other half needs.
// backward_weight    does the other half: it adds the gradients of the weights, which nobody waits
//                    for before the optimizer's step. Afterwards the buffer is free. [Qi23]
// send_activation    sends the stage's output to the next stage, in the background
// recv_activation    receives the stage's input into the buffer
// send_gradient      sends the gradient of the stage's input to the stage before, in the background
// recv_gradient      receives the gradient of the stage's output into the stage's gradient buffer
// reduce_embedding   sums the gradients of the two copies of the token embedding, which the first
//                    and the last stage hold. It is the last action of both.
//
// A stage may hold several chunks of the model (placement.h). Then an action names its chunk, and
// what is said of a stage's input and output above is said of the chunk's. Where two chunks that
// follow each other are on one stage, a message goes from the stage to itself: it is a copy.
enum class ActionKind {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_activation,
  recv_activation,
  send_gradient,
  recv_gradient,
  reduce_embedding,
};
std::string_view name_of(ActionKind kind);

// One thing that a stage does. reduce_embedding has no micro-batch and no buffer.
struct Action {
  ActionKind kind = ActionKind::forward;
  size_t micro_batch = 0;
  size_t buffer = 0;  // the memory of the stage that holds the micro-batch's activations
  size_t peer = 0;    // the other stage of a message or of reduce_embedding
  size_t chunk = 0;   // counts the chunks of the stage

  bool operator==(const Action&) const = default;
};

using StageSchedule = std::vector<Action>;    // in the order in which the stage runs them
using Schedule = std::vector<StageSchedule>;  // by stage

// Sends run in the background and receives block; simulate.h says what each of them waits for.
bool is_send(ActionKind kind);
bool is_recv(ActionKind kind);
// Returns whether the kind is a message with a gradient, in either direction.
bool moves_gradient(ActionKind kind);
// Returns whether the kind is forward, backward or one of backward's halves.
bool is_work(ActionKind kind);
// Returns whether the kind turns the gradient of the output into that of the input.
bool makes_gradient(ActionKind kind);

// Returns the link that a message between two stages takes, one of kNumLinks. Activations have
// other links than gradients, messages to later stages have others than those to earlier stages,
// and so have messages from even and from odd stages. So a stage never sends and receives on one
// link.
inline constexpr size_t kNumLinks = 8;
size_t link_of(size_t stage, const Action& message);

// Describes an action for messages, as in "recv_gradient of micro-batch 3 from stage 1". It names
// the chunk unless that is the first one.
std::string describe(const Action& action);

// Names what an action works on, as in "micro-batch 3" or "chunk 1 of micro-batch 3".
std::string holder_of(const Action& action);

// Returns for how many micro-batches' activations the stage must have memory. Each chunk of a
// micro-batch counts.
size_t num_buffers(const StageSchedule& stage);

}  // namespace ladder
