// Which layouts some ranks can make, and which of them they take.
#pragma once

#include "common/grid/process_grid.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Returns whether the ranks of a layout can train: its tensor-parallel ranks divide the heads, its
// stages have something to do, and its data-parallel ranks divide the global batch into whole
// micro-batches. A micro-batch size of 0 stands for one that fits.
bool can_train(const RunConfig& config, const ProcessGrid& layout);

// Returns the layout for at most `num_ranks` ranks. Its tensor and its pipeline size are those of
// `wished` or divisors of them, the data size is what the rest makes. Of all layouts that can train
// it is the one with the most ranks; among these, the one that splits the model most, by tensor
// parallelism first. REQUIRES: num_ranks > 0; one rank can train.
ProcessGrid choose_layout(const RunConfig& config, const ProcessGrid& wished, size_t num_ranks);

}  // namespace ladder
