// What decides the numbers of a run: a checkpoint has it, so that a run that resumes can say what
// is different.
#pragma once

#include <map>
#include <string>

#include "common/data/corpus.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Returns what decides the numbers of a run, besides the state, the model and the layout, by name:
// the data, and the values of the flags whose rows say that they are compared.
std::map<std::string, std::string> settings_of(const RunConfig& config, const Corpus& corpus);

}  // namespace ladder
