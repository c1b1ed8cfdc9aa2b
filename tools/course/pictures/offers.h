// Offers of lesson 19 by days and GPU-hours, with the limits and the choice.
#pragma once

#include <string>

namespace ladder {

// Draws the worked example of lesson 19: what the lesson's own choose() takes of five offers.
std::string draw_offers();

}  // namespace ladder
