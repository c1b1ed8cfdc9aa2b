// The files and folders that flags name.
#pragma once

#include <string>
#include <vector>

#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// A path and the flag that gives it, such as "--metrics". If the path is empty there is no file.
struct NamedFile {
  const char* flag;
  std::string path;
};

// Throws a UserError that names both flags if an output of the run is also one of its inputs or
// another output, under whatever name, or has a name that --dump will use. `more_outputs` are the
// lesson's own outputs.
void check_distinct(const RunConfig& config, const Corpus& corpus,
                    const std::vector<NamedFile>& more_outputs);

}  // namespace ladder
