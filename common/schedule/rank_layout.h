// What each rank of a grid holds of a model, said without starting any of them.
#pragma once

#include "common/grid/process_grid.h"
#include "common/model/layout.h"

namespace ladder {

// Returns the layout of the flat buffers of rank `grid.rank`: of its pipeline stage, as
// cut_evenly() cuts them, and of its slice of what tensor-parallel ranks split. Data-parallel ranks
// have one layout, and rank grid.group_rank(Axis::data) of them owns its shards. Throws a UserError
// that begins with the layout if the model cannot be split so, or if the grid has a context axis or
// no such rank.
Layout rank_layout(const ModelConfig& config, const ProcessGrid& grid);

}  // namespace ladder
