// Checks pipeline schedules.
#pragma once

#include <string>
#include <vector>

#include "common/schedule/placement.h"
#include "common/schedule/schedule.h"

namespace ladder {

// Returns what is wrong with the schedule of a step, one line for each fault; empty if it is right.
// Activations go from a virtual stage to the next one, and gradients to the virtual stage before;
// the placement says on which stages these are, and stages have Links::many. A stage may hold at
// most max_in_flight[stage] micro-batches, where each of its chunks counts. A schedule is right if
// - every stage does for each micro-batch and chunk recv_activation, forward, send_activation,
//   recv_gradient, backward and send_gradient, each once and in this order; the first and the last
//   virtual stage leave out messages that have no other end. Instead of backward there may be
//   backward_input, and then backward_weight after all the others.
// - every message is received as the kind that was sent, and in the order of sending.
// - no stages wait for each other for ever, even though messages are not buffered (simulate.h).
// - a micro-batch is put into a buffer only when the one there has run backward (or
//   backward_weight), and stays in it; and no stage holds more micro-batches, or uses more buffers,
//   than allowed. Chunks of virtual stages before `first_backward` have no backward and no messages
//   of gradients; there the buffer is free when the output has been passed on. That stage sends no
//   gradient either.
// - nothing is put into the stage's one gradient buffer before its contents have been used.
// - reduce_embedding is the last action of the stages of the first and of the last virtual stage,
//   if they are two stages and there is no stage without backward, and appears nowhere else.
// REQUIRES: there are as many bounds as stages, and as many stages as the placement has.
std::vector<std::string> check_schedule(const Schedule& schedule, const ChunkPlacement& placement,
                                        size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight,
                                        size_t first_backward = 0);
// Returns what is wrong with the order of messages between different stages, which is one of the
// points above.
std::vector<std::string> check_messages(const Schedule& schedule, const ChunkPlacement& placement);
// Does the same as the first one where every stage has one chunk and Links::few.
std::vector<std::string> check_schedule(const Schedule& schedule, size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight);

}  // namespace ladder
