// Lesson 14: who computes which scores of a sequence, and in which round of the ring.
#pragma once

#include <cstddef>
#include <string>

namespace ladder {

// The square of all queries by all keys in 2 N slices each, twice: with contiguous slices and with
// a zigzag. A cell has the number of its round, and half a cell is cut by the causal mask. Below
// each square stand the cells of every rank in every round; a round lasts as long as its longest.
// All is what the lesson's plan says. REQUIRES: 2 to 4 ranks.
std::string draw_score_squares(size_t num_ranks);

}  // namespace ladder
