// Which rank makes which matrices orthogonal in lesson 20, for two ways to choose.
#pragma once

#include <string>

namespace ladder {

// Draws the homes of the weights of GPT-2 124M among eight ranks.
std::string draw_muon_homes();

}  // namespace ladder
