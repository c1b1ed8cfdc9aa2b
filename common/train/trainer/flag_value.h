// What a row of the flags says besides what --help prints, and the value that the flag has.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ladder {

class FlagTable;  // of all rows (common/train/flags/flag_table.h)
struct RunConfig;

// How a run that resumes finds out that a flag has changed.
enum class ComparedBy {
  value,   // its value is compared, unless it is the default
  in_run,  // its value in the run is compared, also a default
  model,   // the models are compared; a run with another one is refused
  layout,  // the layouts are compared
  nothing  // nobody compares it, since it changes no number of the state
};

// What a run does with the file or folder that a flag names.
enum class FileUse { none, read, written };

// Returns the value of a flag in a run; an empty text if it is what was given.
using ValueInRun = std::function<std::string(const RunConfig&)>;

struct FlagTraits {
  std::optional<ComparedBy> compared = {};  // nothing: as the heading of the row says
  FileUse file = FileUse::none;
  ValueInRun in_run = {};  // where a default comes from the preset, other flags or the machine
};

struct FlagValue {
  std::string value;  // as it was given
  bool is_default = true;
  FlagTraits traits = {};
};

}  // namespace ladder
