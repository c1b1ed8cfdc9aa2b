// Lesson 05 in time: which unit is in which of its buffers.
#pragma once

#include <string>

namespace ladder {

// A step of lesson 05 on the virtual device: what rank 0 computes and communicates, and below it
// the buffers for gathered units. A unit arrives in a buffer, is read there, and gives it up.
std::string draw_gather_buffers();

}  // namespace ladder
