// Reads flags from the command line and from a file.
#pragma once

#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Adds --config and --version to the app, then parses argv and the file that --config names. Where
// both give a flag, the command line counts. All numbers must be decimal and finite. Returns the
// path of the file, or an empty text if there is none. Throws a UserError of one line if anything
// is wrong, and CLI::Success if --help or --version is given; its what() is the text to print.
// REQUIRES: the app has all its flags.
std::string parse_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace ladder
