// Is a pipeline schedule right?
#pragma once

#include <string>
#include <vector>

#include "common/schedule/schedule.h"

namespace ladder {

// What is wrong with the schedule of a step; empty when it is good. max_in_flight[stage]: how many
// micro-batches the stage may hold. Stages form one line: activations go to the next one, gradients
// to the one before. Good is:
// - Every stage does for each micro-batch recv_activation, forward, send_activation, recv_gradient,
//   backward, send_gradient, each once and in this order, but what has no other end at the first
//   and the last stage. (Happens-before within a stage; with the next two, between stages.)
// - Every message is received as what it is sent as, in the order of sending.
// - No deadlock, though messages are not buffered (simulate.h).
// - A micro-batch is put in a slot when the one there has run backward, and stays in it; no more
//   are in flight, and no more slots used, than allowed.
// - Nothing is put in the stage's one gradient buffer before what is there has been used up.
// - reduce_embedding is the last action of first and last stage if they are two, and nowhere else.
// REQUIRES: as many bounds as stages.
std::vector<std::string> check_schedule(const Schedule& schedule, size_t num_micro_batches,
                                        const std::vector<size_t>& max_in_flight);

}  // namespace ladder
