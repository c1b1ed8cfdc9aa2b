// The files and folders that flags name.
#pragma once

#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// Throws a UserError that names both flags if an output of the run is also one of its inputs or
// another output, under whatever name, or has a name that --dump will use.
void check_distinct(const RunConfig& config, const Corpus& corpus);

}  // namespace ladder
