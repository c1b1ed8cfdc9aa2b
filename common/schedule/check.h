// Checks pipeline schedules.
#pragma once

#include <string>
#include <vector>

#include "common/schedule/schedule.h"

namespace ladder {

// Returns what is wrong with the schedule of a step, one line for each fault; empty if it is right.
// Stages form a line: activations go to the next stage, gradients to the stage before. A stage may
// hold at most max_in_flight[stage] micro-batches. A schedule is right if
// - every stage does for each micro-batch recv_activation, forward, send_activation, recv_gradient,
//   backward and send_gradient, each once and in this order; the first and the last stage leave out
//   messages that have no other end.
// - every message is received as the kind that was sent, and in the order of sending.
// - no stages wait for each other for ever, even though messages are not buffered (simulate.h).
// - a micro-batch is put into a slot only when the one there has run backward, and stays in it; and
//   no stage holds more micro-batches, or uses more slots, than allowed.
// - nothing is put into the stage's one gradient buffer before its contents have been used.
// - reduce_embedding is the last action of the first and of the last stage, if they are two stages,
//   and appears nowhere else.
// REQUIRES: there are as many bounds as stages.
std::vector<std::string> check_schedule(const Schedule& schedule, size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight);

}  // namespace ladder
