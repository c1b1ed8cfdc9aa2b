// The files and folders that flags name.
#pragma once

#include "common/data/corpus.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Throws a UserError that names both flags if an output of the run is also one of its inputs or
// another output, under whatever name, has a name that --dump or --tensorboard will use, or lies in
// a checkpoint.
void check_distinct(const RunConfig& config, const Corpus& corpus);
// Does the same for a run of simulated ranks, which reads the file of --cluster.
void check_distinct(const RunConfig& config, const std::string& cluster);

}  // namespace ladder
