// The main function of a small program: its command line, its messages and its exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ladder {

// Parses the command line, then runs `body` and returns the status that it gives. Under `bazel run`
// relative paths are the user's. A mistake of the user (also in the command line) is said in one
// line that begins with the program's name, app.get_name(), and gives 2; any other error gives 1.
// --help prints help_text(app), --version version_text() (common/io/version.h); both give 0.
int run_small_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace ladder
