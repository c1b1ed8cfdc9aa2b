// What all ranks of a run must have alike: the program, its flags, its input files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/comm/job.h"
#include "common/data/corpus.h"
#include "common/train/config.h"

namespace ladder {

// The lesson, the build, and whether --help is asked for: what has to be the same before ranks do
// anything together. The build is known by a hash of the program's file.
std::vector<Setting> settings_of_program(const char* lesson, int argc, const char* const* argv);

// Every flag of `app` with its value, wherever that comes from: the command line, the file of
// --config, the default. REQUIRES: `app` has parsed them.
std::vector<Setting> settings_of_flags(CLI::App& app);

// UserError where a rank's program, or its flags, are not rank 0's. One rank reads nothing for it.
// Collective.
void require_same_program(const Job& job, const char* lesson, int argc, const char* const* argv);
void require_same_flags(const Job& job, CLI::App& app);

// The files of --init and --data: UserError where a rank's differ from rank 0's in their size or
// their contents. Files that are the same file of one machine are not read. Else all of --init is
// compared; of each file of --data all up to 16 MiB, and of larger ones as much, in 4 KiB spread
// evenly from the first to the last byte. Collective.
void require_same_inputs(const Job& job, const RunConfig& config, const Corpus& corpus);

}  // namespace ladder
