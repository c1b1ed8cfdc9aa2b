// The file of --save-config.
#pragma once

#include <map>
#include <string>

#include "common/io/cli11.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Returns flags that have no value before a run is known, by name, as they are in this run: those
// of the model and of training alone, or with those of the machine and of sampling.
std::map<std::string, std::string> resolved_sizes(const RunConfig& config);
std::map<std::string, std::string> resolved_flags(const RunConfig& config);

// Returns the lines of a file for --config, with which the app has the flags that it has now: all
// that are given, those in `resolved`, and defaults, except for those that mean "none". Throws a
// UserError that names --save-config if a value cannot be written in such a file. REQUIRES: the app
// has parsed the flags.
std::string saved_flags(CLI::App& app, const std::map<std::string, std::string>& resolved);

// Writes them to the path of --save-config; nothing without it. Throws a UserError if it cannot, or
// if there is a file that --save-config has not written, or that of --config.
void save_flags(CLI::App& app, const std::map<std::string, std::string>& resolved = {});

}  // namespace ladder
