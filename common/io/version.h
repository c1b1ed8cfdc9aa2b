// What a program is made of, as --version prints it.
#pragma once

#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Adds the flag --version. If it is given, parsing throws CLI::CallForVersion, whose what() is
// version_text() of the app's name.
void add_version_flag(CLI::App& app);

// Returns a line for the program's name, and for its revision, the compiler, and each of CUDA, MPI
// and oneDNN: lines of libraries only if the program is linked with them. Does not start any of
// them.
std::string version_text(const std::string& program);

}  // namespace ladder
