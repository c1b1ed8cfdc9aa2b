// What a run reads: checked before anything is allocated or written.
#pragma once

#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// The tokens that --data names. UserError where the model cannot be trained on them.
Corpus open_corpus(const RunConfig& config);

// UserError unless the model can start from the file of --init; with `all_values` that is asked of
// each number in it too, which reads the whole file. REQUIRES: there is such a file.
void check_weights(const RunConfig& config, bool all_values);

}  // namespace ladder
