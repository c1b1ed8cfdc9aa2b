// What decides the numbers of a run: a checkpoint has it, so that a run that resumes can say what
// is different.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/data/corpus.h"
#include "common/train/trainer/config.h"

namespace ladder {

// How a run that resumes finds out that a flag has changed.
enum class ComparedBy {
  value,   // the flag's value is one of the settings
  model,   // the models are compared; a run with another one is refused
  layout,  // the layouts are compared
  nothing  // nobody compares it, since it changes no number of the state
};

// Returns the flags that are not compared by value. Every other flag is compared, so a flag that a
// new lesson adds is compared by default.
const std::map<std::string, ComparedBy, std::less<>>& flags_without_setting();

// Returns what decides the numbers of a run, besides the state, the model and the layout, by name:
// the data, and the values of flags. A flag that has its default value is left out, unless the
// default depends on other flags or on the machine.
std::map<std::string, std::string> settings_of(const RunConfig& config, const Corpus& corpus);

}  // namespace ladder
