// What lesson 02 gains by communicating while it computes.
#pragma once

#include <string>

namespace ladder {

// A step of lesson 02 on the virtual device, twice on one axis: with one sum after backward, and
// with sums of buckets while backward goes on. The time that is saved has a mark.
std::string draw_overlap();

}  // namespace ladder
