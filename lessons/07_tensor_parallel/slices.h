// Slices of tensors: which layouts have them, what they communicate, and joining them for dumps.
#pragma once

#include "common/comm/grid_groups.h"
#include "lessons/01_single_gpu/replica.h"

namespace ladder {

// UserError, naming the numbers and sizes that would do, unless tensor_size divides the heads and
// leaves every rank at least one token of the vocabulary.
void check_slices(const Gpt2Config& config, size_t tensor_size);

// What tensor-parallel ranks sum in `num_micro_batches` micro-batches of this part of the model.
// For R rows, L blocks here: after each of a block's two row-parallel products in forward and
// before each of its two column-parallel ones in backward R C elements, 4 L R C; R C more behind
// the token embedding; R C, the gradient, before the classifier, which takes 3 numbers a row
// besides.
Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches);

}  // namespace ladder
