// The flags that say how much memory a rank may use, and how it saves memory.
#pragma once

#include "common/io/cli11.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Adds the flags. `config`, which must live until the app has parsed, gets their values.
void add_memory_flags(CLI::App& app, RunConfig& config);

}  // namespace ladder
