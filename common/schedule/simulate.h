// When everything in a pipeline schedule happens: a model of what the executor does.
//
// A stage runs its actions in order. forward, backward and receives block it; a send is started and
// goes on in the background. A stage has two channels, one for activations and one for gradients:
// each runs its sends and receives in order, and one begins when the one before it has completed. A
// message is transferred when both its send and its receive have begun; both complete together.
// Nothing is buffered on the way: MPI may wait for the receiver with any message, and does with
// large ones, so a schedule must not rely on more.
//
// The gradient buffer is one: backward begins when the stage's sends of gradients have completed
// (recv_gradient does anyway, being on their channel). reduce_embedding begins when both its stages
// have come to it and their sends have completed, and blocks both.
#pragma once

#include <functional>
#include <vector>

#include "common/schedule/schedule.h"

namespace ladder {

// How long an action of `stage` takes, in any unit, alone. A message takes what its send does, the
// receives are never asked. reduce_embedding takes the longer of the two stages' times.
using Costs = std::function<double(size_t stage, ActionKind kind)>;
// The same on all stages; the sum of the embedding takes as long as a message.
Costs uniform_costs(double forward, double backward, double message = 0);

// From an action's begin to its completion. That of a message or of reduce_embedding begins when
// the stage comes to it, so it includes the wait for the other stage.
struct Span {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};
// By stage, by action. Measured times may stand in one too.
using Timeline = std::vector<std::vector<Span>>;

// Throws Error saying what every stage waits for where none can go on (a send that nobody receives
// is such a case too), or naming an action whose peer is no other stage.
Timeline simulate(const Schedule& schedule, const Costs& costs);

// From the first begin to the last end.
Span extent_of(const Timeline& timeline);

// The share of time in which stages run neither forward nor backward: from 0 to 1. GPipe's and
// 1F1B's is (p - 1)/(m + p - 1) with equal stages and free messages; relative to the time of work
// alone instead of all time, as some papers have it, that is (p - 1)/m.
struct Bubble {
  std::vector<double> idle;  // by stage
  double overall = 0;        // their mean
};
Bubble bubble_of(const Schedule& schedule, const Timeline& timeline);

}  // namespace ladder
