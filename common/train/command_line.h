// How flags are read, from the command line and from a file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ladder {

// Adds --config to the app, then parses argv and the file that --config names; the command line
// goes first. Numbers are decimal and finite, for all flags of the app. Returns the path of the
// file, "" where there is none. UserError, in one line: whatever is wrong. Throws CLI::CallForHelp
// where --help asks for it. REQUIRES: the app has all its flags.
std::string parse_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace ladder
