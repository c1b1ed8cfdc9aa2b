// Checks of what must be the same on all ranks of a run: the program, its flags, its input files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/comm/job.h"
#include "common/data/corpus.h"
#include "common/io/cli11.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Returns the settings that must agree before ranks do anything together: the lesson, the build,
// and whether --help or --version is asked for. A hash of the program's file stands for the build.
std::vector<Setting> settings_of_program(const char* lesson, int argc, const char* const* argv);

// Returns every flag of `app` with its value, which may come from the command line, from the file
// of --config, or from the default. Before `app` has parsed the flags all have their defaults.
std::vector<Setting> settings_of_flags(CLI::App& app);

// Returns the same as a map that also says which values are those in `defaults`, which
// settings_of_flags() has returned before the app parsed the flags, and what their rows say.
std::map<std::string, FlagValue> flag_values(FlagTable& flags,
                                             const std::vector<Setting>& defaults);

// Returns a text by which two runs can tell whether they have the same data, wherever its files
// are: the number of tokens and a hash of the files. Of large files a part is hashed, as below.
std::string identity_of(const Corpus& corpus);

// These throw UserError on all ranks if a rank's program, or its flags, differ from rank 0's. A
// single rank reads nothing for them. Collective.
void require_same_program(const Job& job, const char* lesson, int argc, const char* const* argv);
void require_same_flags(const Job& job, CLI::App& app);

// Throws UserError on all ranks if a rank's files of --init, --data and --task differ from rank 0's
// in size or contents. Ranks of one machine that name the same file do not read it. Otherwise the
// files of --init are compared whole. A file of --data is compared whole if it has at most 16 MiB;
// of a larger file, 16 MiB in pieces of 4 KiB are compared, spread evenly from the first byte to
// the last. Collective.
void require_same_inputs(const Job& job, const RunConfig& config, const Corpus& corpus);

}  // namespace ladder
