// What lessons 01 to 07, 11 and 13 hold in memory, as bars.
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

// Of the same model in lesson 11, with 16 sequences at a time and every mode of --recompute.
std::string recompute_bars();

// Of the same model and as many sequences in lessons 01, 07 and 13, on 4 and on 12 ranks.
std::string sequence_bars();

}  // namespace ladder
