// The ring all_reduce of lesson 00, round by round.
#pragma once

#include <string>

namespace ladder {

// A frame for what the ranks hold at first, and one for each round of the plan: a row for each
// rank, a square for each of its numbers. The more ranks' numbers a sum has in it, the darker its
// square; complete ones are bold. An arrow shows which number has come from the rank above (of the
// first row: from the last one) in this round. REQUIRES: 2 to 9 ranks.
std::string ring_strip(size_t num_ranks);

}  // namespace ladder
