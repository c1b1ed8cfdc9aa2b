// An all_reduce of lesson 00, round by round, on a circle of ranks.
#pragma once

#include <string>

#include "lessons/00_collectives/plan.h"

namespace ladder {

// A frame for what the ranks hold at first, and one for each round of the plan: the ranks on a
// circle, each with a square for each of its numbers. The more ranks' numbers a sum has in it, the
// darker its square. An arrow for each message has the numbers of the parts
// that travel; where they have come from, their squares have a frame. The rounds after which all
// sums are complete somewhere stand in the upper row. REQUIRES: the algorithm can do it; 2 to 4
// ranks.
std::string draw_all_reduce(Algorithm algorithm, size_t num_ranks);

}  // namespace ladder
