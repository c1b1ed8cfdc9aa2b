// Which checkpoints there are, and whether they are sound.
#pragma once

#include <ostream>
#include <string>

namespace ladder {

// Returns the bytes of all files of a checkpoint.
size_t size_of_checkpoint(const std::string& path);

// Returns a table with a line for each checkpoint at `path` (checkpoints_at()): name, size, and
// what its index says. A checkpoint whose index is damaged has a line that says so.
std::string list_of(const std::string& path);

// Reads and checks everything of each checkpoint at `path`, and prints a line for each one that is
// sound. Throws UserError at the first fault, which it names with the file.
void verify(const std::string& path, std::ostream& out);

}  // namespace ladder
