// What ranks that work on one model do together, however the model is spread over them.
#pragma once

#include <functional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/train/model_state.h"

namespace ladder {

// The sum of a number over the ranks of a group, in rank order. Collective.
double sum_over(Communicator& group, double number);

// The parameters that `which` picks are copies on all ranks of the group.
struct Copies {
  Communicator& group;
  std::function<bool(const Unit&, const Parameter&)> which = [](const Unit&, const Parameter&) {
    return true;
  };
};

// Units that the first pipeline stage and the last hold a copy of each. `group`: these two.
Copies copies_of_shared_units(Communicator& group);

// Throws Error unless all copies are the same to the bit, naming the ranks of `world` whose copies
// are not those of most. Collective over all groups: a rank looks at each of them before it throws,
// since its peers on one axis may have found nothing on another. Synchronizes the stream.
// REQUIRES: `state` has whole parameters, not shards.
void check_copies(ModelState& state, const Communicator& world, const std::vector<Copies>& all);

}  // namespace ladder
