// Two things that ranks of every arrangement do together: add up a number, and check that copies of
// parameters are identical.
#pragma once

#include <functional>
#include <vector>

#include "common/comm/communicator.h"
#include "common/train/trainer/model_state.h"

namespace ladder {

// Returns the sum of a number over the ranks of a group, taken in rank order. Collective.
double sum_over(Communicator& group, double number);

// Says that all ranks of the group hold copies of the parameters that `which` picks.
struct Copies {
  Communicator& group;
  std::function<bool(const Unit&, const Parameter&)> which = [](const Unit&, const Parameter&) {
    return true;
  };
  size_t consecutive = 0;  // so many ranks of the group, one after the other, do; 0: all of them
};

// Returns the copies that the first and the last pipeline stage hold of the units they share.
// `group` has these two stages.
Copies copies_of_shared_units(Communicator& group);
// Returns the copies that tensor-parallel ranks hold: all of what is not split, some or all of a
// slice (Parameter::copies).
std::vector<Copies> copies_of_slices(Communicator& ranks, const Layout& layout);

// Throws an Error unless all copies are the same to the bit. It names the ranks of `world` whose
// copies differ from those of most ranks. Collective over all groups: a rank checks every group
// before it throws, because its peers in one group may have found nothing in another. Synchronizes
// the stream. Of shards it compares what the ranks hold.
void check_copies(ModelState& state, const Communicator& world, const std::vector<Copies>& all);

}  // namespace ladder
