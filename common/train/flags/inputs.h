// Opens and checks what a run reads, before anything is allocated or written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/index.h"
#include "common/data/corpus.h"
#include "common/data/tokenizer.h"
#include "common/io/path.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Opens the tokens that --data names, or the examples of --task, or those that a classification
// head learns without it. Throws UserError if the model is trained and cannot be trained on them.
Corpus open_corpus(const RunConfig& config);

// Returns the flag that names what open_corpus() opens.
inline const char* data_flag(const RunConfig& config) {
  return config.has_examples() ? "--task" : "--data";
}

// Returns what is known of the tokens of a run. The tokenizer is that of --tokenizer. It knows the
// end of a text, otherwise the config.json in the folder of --init may know it; nothing is guessed
// from the size of the vocabulary. Throws UserError if the tokenizer cannot be used, if it has
// tokens beyond the model's vocabulary, or if tokens are the bytes of a text.
Vocabulary open_vocabulary(const RunConfig& config, const Corpus& corpus);

// Says in the settings of a checkpoint what is known of its tokens.
void note_vocabulary(const Vocabulary& vocabulary, std::map<std::string, std::string>& settings);
// Returns what the settings of a checkpoint say. Throws a UserError that begins with its path if
// they name an end of a text that is no token of the model.
Vocabulary vocabulary_of(const CheckpointIndex& index, const std::string& path);

// Takes from `then`, which a checkpoint says, what the run itself does not know. A run without
// steps has no data that say what its tokens are.
void complete_vocabulary(Vocabulary& vocabulary, const RunConfig& config, const Vocabulary& then);

// Returns the token that a sample continues. Text begins after a line break, other tokens after the
// end of the text before. Where there is no such token, it is the first token of the data, or 0 if
// that is beyond the vocabulary.
int32_t first_token(const Corpus& corpus, const Vocabulary& vocabulary, size_t vocab_size);

// Returns the path of the config.json in the folder of --init. It is empty if there is none.
std::string published_config_of(const RunConfig& config);

// Returns every file that --init names: the safetensors file, or what counts in the folder, with
// its index and its config.json. There are none without --init. Throws UserError if the folder has
// no weights, or a damaged index.
std::vector<std::string> init_files(const RunConfig& config);

// Returns the files of a model that may lie in the folder of --init or beside --tokenizer: a run
// reads some of them, and others are the model's, too. They need not be there.
std::vector<NamedFile> files_beside(const RunConfig& config);

// Returns the two files in the folder of --init-adapter. There are none without.
std::vector<std::string> adapter_files(const RunConfig& config);

// Throws UserError if the model cannot start from the weights of --init and --init-adapter, or if
// the config.json beside them describes another model. With `all_values` it also checks every
// value, for which it reads everything. REQUIRES: config.init is not empty.
void check_weights(const RunConfig& config, bool all_values);

}  // namespace ladder
