// What ranks that work on one model do together, however the model is spread over them.
#pragma once

#include <functional>

#include "common/comm/communicator.h"
#include "common/train/slices.h"

namespace ladder {

// The sum of a number over the ranks of a group, in rank order. Collective.
double sum_over(Communicator& group, double number);

// Throws Error, naming the rank, unless the parameters that `which` picks, in a whole buffer of the
// layout, are the same to the bit on all ranks of the group. Collective. Synchronizes the stream.
void check_copies(
    Stream& stream, Communicator& group, const Layout& layout, ConstTensorView parameters,
    const std::function<bool(const Unit&, const Parameter&)>& which =
        [](const Unit&, const Parameter&) { return true; });

}  // namespace ladder
