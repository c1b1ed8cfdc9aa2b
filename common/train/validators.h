// Checks of flags' values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

// A whole number in decimal without leading zeros.
CLI::Validator decimal();
// The same, from `least` to `most`.
CLI::Validator whole(int64_t least, int64_t most);
// A finite number from `least` (or above it, if exclusive) to `most`.
CLI::Validator real(double least, double most, bool exclusive = false);
// A path; an empty one would mean "none" and is more likely an unset shell variable.
CLI::Validator path();

// A number of bytes, such as 64MiB, which becomes the plain number. For transform().
CLI::Validator byte_size();

// A flag that takes whole numbers from `least` to `most`, separated by commas: 5,3,3,1. In a file
// of flags they may also be [5, 3, 3, 1].
CLI::Option* add_whole_list(CLI::App& app, const std::string& name, std::vector<size_t>& numbers,
                            const std::string& text, int64_t least, int64_t most);

// For lessons whose ranks all split one model: UserError, naming the flag, unless `size` is 0 (all)
// or the number of ranks.
void check_all_ranks(std::string_view flag, size_t size, size_t num_ranks);

}  // namespace ladder
