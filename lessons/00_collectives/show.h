// Prints plans for people to read.
#pragma once

#include <string>

#include "lessons/00_collectives/plan.h"

namespace ladder {

// Returns a text with every round of the collective on four numbers a rank: who sends which numbers
// to whom, and what each rank holds afterwards. A dot stands for a number that a rank does not
// have. An all_to_all needs a multiple of the ranks, so its vector may have more than four numbers.
// Throws UserError if check_supported() does.
std::string show_plan(Algorithm algorithm, Collective collective, size_t num_ranks);

}  // namespace ladder
