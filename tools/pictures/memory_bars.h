// What lessons 01 to 06 hold in memory, as bars.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/memory.h"

namespace ladder {

// Bytes that one rank holds, by category.
struct MemoryBar {
  std::string name;
  MemoryUse use;
};

// One bar for each, with its categories side by side, and its total after it. All bars have the
// same scale. REQUIRES: one of them is not empty.
std::string draw_memory_bars(const std::string& title, const std::vector<MemoryBar>& bars);

// Of GPT-2 with 124 million parameters in fp32, one sequence of 1,024 tokens at a time: lesson 01
// alone, and one of four ranks of each later lesson. These are the trainers' own predictions.
std::string memory_bars();

}  // namespace ladder
