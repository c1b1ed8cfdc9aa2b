// The flags of sampling, and what they need of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/data/tokenizer.h"
#include "common/train/trainer/config.h"

namespace ladder {

class SamplingFlags {
 public:
  // Adds the flags. `config`, which must live until the app has parsed, gets all values but the
  // number of tokens.
  void add_to(FlagTable& flags, RunConfig& config);
  // Sets config.sample_tokens, with this default; a masked model samples nothing. Throws UserError
  // if it is asked to, if there is a prompt and nothing is drawn, or if a run without steps is
  // asked for something that only steps make.
  void resolve(RunConfig& config, size_t default_tokens) const;
  // Returns whether --sample or --prompt asks for a sample.
  bool ask(const RunConfig& config) const {
    return tokens_.value_or(0) > 0 || !config.prompt.empty();
  }

 private:
  std::optional<size_t> tokens_;
};

// Returns the tokens of --prompt: none without it. They are the bytes of the text if `is_text`. If
// not, the tokenizer at config.tokenizer makes them, and without one the text has their numbers, as
// samples have then. Throws a UserError if the text cannot be turned into tokens of the model's
// vocabulary, or if the folder of --init says that its tokens are not bytes.
std::vector<int32_t> prompt_tokens(const RunConfig& config, bool is_text);

}  // namespace ladder
