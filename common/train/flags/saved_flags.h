// The file of --save-config.
#pragma once

#include <string>

#include "common/train/trainer/config.h"

namespace ladder {

// Returns the lines of a file for --config, with which the app has the flags that it has now: all
// that are given, those whose rows know a value in the run (if there is one), and defaults, except
// for those that mean "none". Throws a UserError that names --save-config if a value cannot be
// written in such a file. REQUIRES: the app has parsed the flags.
std::string saved_flags(FlagTable& flags, const RunConfig* config = nullptr);

// Writes them to the path of --save-config; nothing without it. Throws a UserError if it cannot, or
// if there is a file that --save-config has not written, or that of --config.
void save_flags(FlagTable& flags, const RunConfig* config = nullptr);

}  // namespace ladder
