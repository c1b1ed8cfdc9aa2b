// Slices of tensors: which layouts have them, and what they communicate.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/model/tensor_parallel.h"
#include "common/train/config.h"

namespace ladder {

// UserError, naming the numbers and sizes that would do, unless tensor_size divides the heads and
// leaves every rank at least one token of the vocabulary.
void check_slices(const Gpt2Config& config, size_t tensor_size);

// The points at which the model meets the other ranks of the group, by all_reduce.
TensorParallel tensor_parallel_on(Communicator& ranks);

// What tensor-parallel ranks sum in `num_micro_batches` micro-batches of this part of the model.
// For R rows and L blocks here: R C elements after each of a block's two row-parallel products in
// forward and before each of its two column-parallel ones in backward, so 4 L R C; R C more after
// the token embedding; and for the classifier R C, its input's gradient, and 3 statistics a row.
Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches);

}  // namespace ladder
