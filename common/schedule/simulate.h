// Computes when everything in a pipeline schedule happens. It is a model of what the executor does.
//
// A stage runs its actions in order. forward, backward and receives block it; a send is started and
// goes on in the background. A stage has several channels (Links). Each channel runs its sends and
// receives in order: one begins when the last one has completed. A message is transferred when both
// its send and its receive have begun; both complete together. Nothing is buffered on the way: MPI
// may make any send wait for its receiver, and does so for large messages, so a schedule must not
// rely on buffers. A micro-batch is put into an activation buffer only when the output that was
// last sent from there has gone (unless messages are eager). A message from a stage to itself takes
// no time, and must be sent before it is received. reduce_embedding begins when both its stages
// have come to it and their sends have completed, and blocks both stages.
#pragma once

#include "common/schedule/costs.h"
#include "common/schedule/timeline.h"

namespace ladder {

// The channels of a stage, and the buffers from which it sends gradients.
// few   One channel for activations and one for gradients, and one gradient buffer. So backward,
//       backward_input and recv_gradient begin only when the sends of gradients have completed.
//       This is enough if activations only go to later stages and gradients only to earlier ones.
// many  A channel for each link_of(). Where stages form a ring, all of them may send and receive at
//       the same time. Gradients leave through a buffer of their channel, so send_gradient begins
//       only when the last send of its channel has completed; until then the stage waits.
// eager As papers count: a message goes on its way when it is sent, waits for nobody and keeps
//       nobody waiting, and lies at its receiver until that wants it. Gradients have a buffer each.
enum class Links { few, many, eager };

// Returns the timeline of the schedule. If no stage can go on (also because of a send that nobody
// receives), it throws an Error that says what every stage waits for. It also throws an Error if
// the peer of an action is no stage.
Timeline simulate(const Schedule& schedule, const Costs& costs, Links links = Links::few);

}  // namespace ladder
