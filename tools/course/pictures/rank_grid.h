// The ranks of a grid, and the groups in which they talk to each other.
#pragma once

#include <string>

#include "common/grid/process_grid.h"

namespace ladder {

// A box for each rank: pipeline stages from top to bottom; from left to right the places on the
// data axis, and within each of them those on the tensor axis. Groups of more than one rank are
// framed (tensor) or joined by lines (pipeline, data). `grid.rank` does not matter.
// REQUIRES: context_size 1.
std::string draw_grid(ProcessGrid grid);

}  // namespace ladder
