// Opens and checks what a run reads, before anything is allocated or written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/data/corpus.h"
#include "common/data/tokenizer.h"
#include "common/train/config.h"

namespace ladder {

// Opens the tokens that --data names. Throws UserError if the model cannot be trained on them.
Corpus open_corpus(const RunConfig& config);

// Opens the tokenizer of --tokenizer; there is none without it. Throws UserError if the file cannot
// be used, if it has tokens beyond the model's vocabulary, or if tokens are the bytes of a text.
std::optional<Tokenizer> open_tokenizer(const RunConfig& config, const Corpus& corpus);

// Returns every file that --init names: the safetensors file, or what counts in the folder, with
// its index and its config.json. There are none without --init. Throws UserError if the folder has
// no weights, or a damaged index.
std::vector<std::string> init_files(const RunConfig& config);

// Throws UserError if the model cannot start from the weights of --init, or if the config.json
// beside them describes another model. With `all_values` it also checks every value, for which it
// reads everything. REQUIRES: config.init is not empty.
void check_weights(const RunConfig& config, bool all_values);

}  // namespace ladder
