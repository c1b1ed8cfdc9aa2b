// The command line of every lesson.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>

#include "common/train/config.h"

namespace ladder {

// What a lesson says of itself.
struct LessonInfo {
  const char* name;         // "01_single_gpu"
  const char* description;  // one line
};

// Parses flags and the file of --config. `add_flags` adds the lesson's own. `data_size` ranks share
// the global batch. Prints the help and returns nothing where --help asks for it.
// UserError: whatever is wrong, in one line.
std::optional<RunConfig> parse_options(const LessonInfo& lesson, int argc, const char* const* argv,
                                       size_t data_size,
                                       const std::function<void(CLI::App&)>& add_flags);

}  // namespace ladder
