// Checks of the table of homes that lesson 20 prints.
#pragma once

#include <string>

#include "tools/course/grader/checks.h"

namespace ladder {

// With --homes in-turn the table is that of the lesson's own program.
Check homes_in_turn(int points, const std::string& hint);
// With longest-first all matrices have homes, and the longest home has no more of the work than in
// the lesson's own program. Equally good choices differ.
Check longest_home(int points, const std::string& hint);

}  // namespace ladder
