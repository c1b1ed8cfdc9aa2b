// The files and folders that flags name.
#pragma once

#include <string>
#include <vector>

#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// A path and the flag that gives it, such as "--metrics". An empty path is none.
struct NamedFile {
  const char* flag;
  std::string path;
};

// UserError, naming both flags, where an output of the run is one of its inputs or another output,
// under whatever name, or lies where --dump will write. `more_outputs`: the lesson's own.
void check_distinct(const RunConfig& config, const Corpus& corpus,
                    const std::vector<NamedFile>& more_outputs);

}  // namespace ladder
