// What one training step of lesson 01 gives to a GPU, counted on the emulator.
#pragma once

#include <vector>

#include "common/train/config.h"
#include "kernels/emulator/profiler/profiler.h"

namespace ladder::roofline {

// Runs one step of the trainer and returns all its launches and products in order. Of each
// launch at most `most_blocks` thread blocks run, spread evenly over the grid; the counts are those
// of all. So a step of GPT-2 takes minutes here, and memory only for what those blocks touch.
std::vector<emulator::Profile> profile_step(const RunConfig& config, size_t most_blocks);

}  // namespace ladder::roofline
