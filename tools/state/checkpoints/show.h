// What a checkpoint says of itself.
#pragma once

#include <string>

#include "common/checkpoint/index.h"

namespace ladder {

// Says what the index at `path` has: who wrote it, model, scalars and settings, and for each rank's
// file its bytes by kind and the units that it has elements of.
std::string index_text(const std::string& path, const CheckpointIndex& index);

}  // namespace ladder
