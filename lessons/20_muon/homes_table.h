// What each rank makes orthogonal, as text.
#pragma once

#include <string>

#include "common/model/muon_homes.h"

namespace ladder {

// Returns the lines of the header: the first homes, each with the number of its matrices, its work
// relative to the mean, and the names of its weights.
std::string homes_text(const MuonHomes& homes);

}  // namespace ladder
