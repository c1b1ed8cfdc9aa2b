// How long the actions of a schedule take.
#pragma once

#include <functional>

#include "common/schedule/schedule.h"

namespace ladder {

// Returns how long an action of `stage` takes by itself, in any unit of time. A message takes as
// long as its send; the function is not called for receives. reduce_embedding takes the longer of
// the two stages' times.
using Costs = std::function<double(size_t stage, const Action& action)>;
// Returns costs that are the same on all stages. Each half of backward takes half of its time, and
// reduce_embedding takes as long as a message.
Costs uniform_costs(double forward, double backward, double message = 0);

}  // namespace ladder
