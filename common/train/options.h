// The command line of every lesson.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>

#include "common/train/config.h"

namespace ladder {

// Which dtypes a lesson trains in: fp32 and fp64; bf16 too; and fp16, which needs a loss scale.
enum class Precisions { full, bf16, all };

// What a lesson says of itself.
struct LessonInfo {
  const char* name;         // "01_single_gpu"
  const char* description;  // one line
  Precisions precisions = Precisions::bf16;
};

// Where a run takes place, as far as flags depend on it.
struct Ranks {
  bool distributed = false;  // the lesson is made for several ranks
  size_t rank = 0;
  size_t node_size = 1;  // that share this machine's cores
  // How many share the global batch; asked once the flags are known.
  std::function<size_t()> data_size = [] { return 1; };
  size_t size = 1;  // of them all
  // Pipeline stages; asked after data_size.
  std::function<size_t()> num_stages = [] { return 1; };
};

// Parses flags and the file of --config. `add_flags` adds the lesson's own. `parsed` is called when
// all flags have their values, before anything is made of them. Rank 0 prints the help and returns
// nothing where --help asks for it. UserError: whatever is wrong, in one line.
std::optional<RunConfig> parse_options(const LessonInfo& lesson, int argc, const char* const* argv,
                                       const Ranks& ranks,
                                       const std::function<void(CLI::App&)>& add_flags,
                                       const std::function<void(CLI::App&)>& parsed = nullptr);

}  // namespace ladder
