// Reads flags from the command line and from a file.
#pragma once

#include <cstddef>
#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Returns what stands at the end of a lesson's --help: an example and the lesson's page. `ranks`:
// on how many ranks the example runs; 0 = without -n.
std::string help_footer(const std::string& lesson, size_t ranks);

// The file of --config.
struct FlagsFile {
  std::string path{};  // empty = none
  std::string note{};  // says, in a line of a header, what was read from it; empty = nothing
};

constexpr const char* kSaveFlag = "--save-config";

// Adds --config, --save-config and --version to the app, then parses argv and the file that
// --config names. Where both give a flag, the command line counts. All numbers must be decimal and
// finite. Throws a UserError of one line if anything is wrong, and CLI::Success if --help or
// --version is given; its what() is the text to print. REQUIRES: the app has all its flags.
FlagsFile parse_command_line(CLI::App& app, int argc, const char* const* argv);

// Returns the path of --save-config, or an empty text. REQUIRES: parse_command_line().
std::string saved_path(const CLI::App& app);

}  // namespace ladder
