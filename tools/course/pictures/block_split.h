// How lesson 07 splits a transformer block.
#pragma once

#include <string>

#include "common/model/config.h"

namespace ladder {

// The two sublayers of a block, each from left to right: what happens to the tokens, and every
// weight in proportion to its shape, with the part that tensor-parallel rank `rank` of `num_ranks`
// holds in colour. The ranks agree on the input before what is split by columns (f, whose backward
// is a sum) and add up the outputs of what is split by rows (g). What is held where is what the
// model's layout says. REQUIRES: num_ranks divides the heads; rank < num_ranks.
std::string block_split(const Gpt2Config& config, size_t rank, size_t num_ranks);

}  // namespace ladder
