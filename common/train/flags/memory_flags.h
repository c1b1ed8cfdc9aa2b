// The flags that say how much memory a rank may use, and how it saves memory.
#pragma once

#include "common/train/trainer/config.h"

namespace ladder {

// Adds the flags. `config`, which must live until the app has parsed, gets their values.
void add_memory_flags(FlagTable& flags, RunConfig& config);

}  // namespace ladder
