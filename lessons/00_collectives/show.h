// Plans for people to read.
#pragma once

#include <string>

#include "lessons/00_collectives/plan.h"

namespace ladder {

// Every round of the collective on four numbers a rank: who sends which numbers to whom, and what
// each rank holds afterwards. A number that a rank does not have yet is a dot. For an all_to_all
// the vector has as many numbers as the ranks divide, four or more. UserError as check_supported().
std::string show_plan(Algorithm algorithm, Collective collective, size_t num_ranks);

}  // namespace ladder
