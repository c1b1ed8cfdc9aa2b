// The rounds of ring attention in time: who computes, and who waits.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// Draws forward of one attention on so many ranks, with contiguous slices and with a zigzag. A bar
// is as long as the pairs of a query and a key that the rank computes at a round. Every round lasts
// as long as its longest bar. REQUIRES: 2 to 8 ranks.
std::string draw_ring_rounds(size_t num_ranks);

}  // namespace ladder
