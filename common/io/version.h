// What a program is made of, as --version prints it.
#pragma once

#include <string>

#include "common/io/cli11.h"

namespace ladder {

// Adds the flag --version. If it is given, parsing throws CLI::CallForVersion, whose what() is
// version_text() of the app's name.
void add_version_flag(CLI::App& app);

// Returns a line each for the program's name, its revision, the compiler and CUDA ("emulator"
// without it), and for MPI and oneDNN if the program is linked with them. Starts none of them.
std::string version_text(const std::string& program);

}  // namespace ladder
