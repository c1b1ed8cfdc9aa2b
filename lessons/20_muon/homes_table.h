// What each rank makes orthogonal, as text.
#pragma once

#include <string>

#include "common/model/muon_homes.h"

namespace ladder {

// Returns the lines of the header that say which home has how many matrices, and which share of the
// longest home's work that is.
std::string homes_text(const OptimizerConfig& config, const MuonHomes& homes);

}  // namespace ladder
