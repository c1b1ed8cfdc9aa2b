// Says in our words what is wrong with a command line: what no flag takes, and what was probably
// meant; values that are empty, missing or of another kind.
#pragma once

#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Returns the flags of the app that someone probably meant who gave it the flag `name`, as in
// "--learning-rate" for --lr, "--global-batch-size or --micro-batch-size" for --batch_size; an
// empty text if there are none. These are flags that are spelled nearly so, and what is called so
// in nanoGPT, llm.c, Hugging Face's trainer, Megatron and DeepSpeed.
std::string meant_flag(const CLI::App& app, const std::string& name);

// Returns what is wrong with the arguments that parsing has left over, in one line: "no such flag
// --lr; did you mean --learning-rate?". Where there is nothing to suggest, it ends with "see
// --help". REQUIRES: the app was parsed, and has arguments left over.
std::string unexpected_text(const CLI::App& app);

// Throws a UserError that names the flag if an argument is empty, as in `--init ""` or `--init=`:
// it would mean "none", but is more likely a shell variable that is not set.
void refuse_empty(int argc, const char* const* argv);

// Returns what is wrong with a flag's value, which `error` says in the words of CLI11.
std::string fault_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ladder
