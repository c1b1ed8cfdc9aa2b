// A step of lesson 21 by the ranks that share a copy of the model, for three networks.
#pragma once

#include <string>

namespace ladder {

// Draws simulated steps of GPT-2 XL on 64 GPUs, with 1 to 64 of them for a copy.
std::string draw_shard_sizes();

}  // namespace ladder
