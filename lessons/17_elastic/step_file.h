// The file in which each rank says in which step it is, for a supervisor to read when they are
// gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ladder {

// Writes this rank's step to its place in the file. Throws UserError if the path cannot be written.
void write_step(const std::string& path, size_t rank, int64_t step);

// Returns the steps that `num_ranks` ranks have written; 0 for a rank that has written none.
std::vector<int64_t> read_steps(const std::string& path, size_t num_ranks);

}  // namespace ladder
