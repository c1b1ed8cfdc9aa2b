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
  value,   // by the text that was given; a flag that was not given is not compared
  in_run,  // by the value that the run has chosen, whether or not the flag was given
  model,   // not itself, but the model that it shapes: a run with another one is refused
  layout,  // not itself, but the layout
  nothing  // not at all, since it changes no number of the state
};

// What a run does with the file or folder that a flag names.
enum class FileUse { none, read, written };

// Returns the value that a run has chosen for a flag; an empty text if the run has chosen none, so
// that what was given stands.
using ValueInRun = std::function<std::string(const RunConfig&)>;

struct FlagTraits {
  std::optional<ComparedBy> compared = {};  // without: as the row's heading says
  FileUse file = FileUse::none;
  ValueInRun in_run = {};  // for defaults that come from the preset, other flags or the machine
};

struct FlagValue {
  std::string value;  // as it was given
  bool is_default = true;
  FlagTraits traits = {};
};

}  // namespace ladder
