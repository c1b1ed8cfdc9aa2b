// Writes a checkpoint anew, as the ranks of another layout would have written it.
#pragma once

#include <string>

#include "common/grid/process_grid.h"

namespace ladder {

// Writes the state of the checkpoint at `from` to the folder `out`, under the same step, as ranks
// of `layout` would: a run of that layout then reads from each file only what its rank owns. It
// holds one file block of what it reads and one of what it writes. Returns the new checkpoint's
// path. Throws UserError if `from` is damaged, the model cannot be split so, there would be more
// than 16,384 files, or `out` cannot be written, is a checkpoint, or has one of this step; then no
// checkpoint appears.
std::string reshard(const std::string& from, const ProcessGrid& layout, const std::string& out);

}  // namespace ladder
