// What one training step of lesson 01 gives to a GPU, counted on the emulator.
#pragma once

#include <vector>

#include "common/train/trainer/config.h"
#include "tools/measure/roofline/gpu.h"

namespace ladder::roofline {

// Runs one step of the trainer and returns all its launches and products in order. Of each launch
// `most_blocks` thread blocks, spread evenly over the grid, are counted for all; and once for each
// kernel and shape the first thread blocks run, as many as the GPU holds at once and more, to see
// what its cache keeps. So a step of GPT-2 takes minutes here, and memory only for what those
// blocks touch. Kernels have the limits of the GPU.
std::vector<emulator::Profile> profile_step(const RunConfig& config, const Cluster& gpu,
                                            size_t most_blocks);

}  // namespace ladder::roofline
