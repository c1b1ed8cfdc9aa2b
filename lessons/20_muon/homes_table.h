// What each rank makes orthogonal, as text.
#pragma once

#include <string>

#include "common/model/muon_homes.h"

namespace ladder {

// Returns the lines of the header that say how many matrices each home has, and how much work that
// is, relative to the mean.
std::string homes_text(const MuonHomes& homes);

}  // namespace ladder
