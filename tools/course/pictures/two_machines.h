// The picture of an all_reduce on two machines: which pairs of ranks use the network between them.
#pragma once

#include <string>

namespace ladder {

// Draws two machines with four ranks each, twice: all ranks exchange parts with all others, and the
// ranks of a machine add up before one rank of each machine exchanges a part with its counterpart.
std::string draw_two_machines();

}  // namespace ladder
