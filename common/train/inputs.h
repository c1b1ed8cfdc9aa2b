// Opens and checks what a run reads, before anything is allocated or written.
#pragma once

#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// Opens the tokens that --data names. Throws UserError if the model cannot be trained on them.
Corpus open_corpus(const RunConfig& config);

// Throws UserError if the model cannot start from the file of --init. With `all_values` it also
// checks every value, for which it reads the whole file. REQUIRES: config.init is not empty.
void check_weights(const RunConfig& config, bool all_values);

}  // namespace ladder
