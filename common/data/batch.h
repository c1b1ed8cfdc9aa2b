// Batches: which tokens every row of every step sees.
#pragma once

#include <cstdint>

#include "common/data/corpus.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// Fills tokens and targets with rows first_row .. first_row + num_rows - 1 of the global batch of
// `step`. A row is a window of T + 1 consecutive tokens of the split: tokens are its first T,
// targets its last T, so targets[row, t] follows tokens[row, t].
//   tokens (num_rows, T) out · targets (num_rows, T) out, both int32 in host memory
// A window's start is uniform over the split, a function of (seed, split, step, global row) alone:
// however the rows are dealt out to ranks and micro-batches, they are the same rows.
// REQUIRES: corpus.require(vocabulary, T) has passed.
void fill_batch(const Corpus& corpus, Split split, uint64_t seed, uint64_t step, uint64_t first_row,
                TensorView tokens, TensorView targets);

}  // namespace ladder
