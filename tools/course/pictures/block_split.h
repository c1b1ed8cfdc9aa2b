// How lessons 07 and 13 split a transformer block.
#pragma once

#include <string>

#include "common/model/config.h"

namespace ladder {

// The two sublayers of a block, each from left to right: what happens to the tokens. Every weight
// and every activation has its shape, with the part that tensor-parallel rank `rank` of `num_ranks`
// holds in colour; tokens go down, columns to the right. The ranks communicate before what is split
// by columns (f) and after what is split by rows (g). With `splits_tokens` they split the tokens
// outside of the two, too. What is held where is what the model's layout says. On one rank, what a
// block of the Llama family has other than GPT-2's is marked.
// REQUIRES: num_ranks divides the heads; rank < num_ranks.
std::string block_split(const ModelConfig& config, size_t rank, size_t num_ranks,
                        bool splits_tokens = false);

}  // namespace ladder
