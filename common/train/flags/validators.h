// Checks of the values that users give to flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/train/trainer/config.h"

namespace ladder {

// Accepts a whole number in decimal without leading zeros.
CLI::Validator decimal();
// Accepts such a number from `least` to `most`.
CLI::Validator whole(int64_t least, int64_t most);
// Accepts a finite number from `least` (or above it, if exclusive) to `most`.
CLI::Validator real(double least, double most, bool exclusive = false);
// Accepts a whole number of steps, or a time: a whole number above 0 with its unit, as in 10min.
CLI::Validator steps_or_time();
// Returns the seconds of such a time; 0 if it is no time.
double seconds_in(const std::string& time);

// Accepts a number of bytes, such as 64MiB, and turns it into the plain number. It is given to
// transform(), which keeps what a validator makes of a value.
CLI::Validator byte_size();

// Accepts what a switch may be set to: true, false, and the like (on, no, 1).
CLI::Validator true_or_false();

// Throws UserError if sizes of the model multiply to more than a size_t can count. Each flag has
// its range, but their product may still be too large.
void check_countable(const RunConfig& config);

// Throws a UserError that names the flag unless `size` is 0 (which means all) or the number of
// ranks. It is for lessons whose ranks all split one model.
void check_all_ranks(std::string_view flag, size_t size, size_t num_ranks);

// Names the ranks that share the global batch: "4 ranks", or "2 data-parallel ranks (of 4)".
std::string sharers(size_t data_size, size_t num_ranks);

}  // namespace ladder
