// Checks of flags' values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string_view>

namespace ladder {

// A whole number from `least` to `most`.
CLI::Validator whole(int64_t least, int64_t most);
// A finite number from `least` (or above it, if exclusive) to `most`.
CLI::Validator real(double least, double most, bool exclusive = false);
// A path; an empty one would mean "none" and is more likely an unset shell variable.
CLI::Validator path();

// For lessons whose ranks all split one model: UserError, naming the flag, unless `size` is 0 (all)
// or the number of ranks.
void check_all_ranks(std::string_view flag, size_t size, size_t num_ranks);

}  // namespace ladder
