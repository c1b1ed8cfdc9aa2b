// Which elements of a checkpoint each rank of another layout reads.
#pragma once

#include <string>

namespace ladder {

// A tensor of 6 x 4 elements, twice: as shards of four ranks, which three ranks read, and as
// columns of two tensor-parallel ranks, which three ranks read as shards. What a rank reads from
// one file without a gap (Overlap in common/checkpoint/overlap.h) has a frame.
std::string draw_resharding();

}  // namespace ladder
