// Comparing what two runs have dumped.
#pragma once

#include <string>

#include "tools/course/grader/grading.h"

namespace ladder {

// The first step in which a run's dump differs from another's, in a sentence; empty: none does. The
// other is lesson 01's run, or, for tolerance 0, that of the lesson's own program. With
// `gradients_only` gradients count, up to the first update that is wrong.
std::string difference(const Outcome& learner, const Outcome& other, double tolerance,
                       bool gradients_only);

}  // namespace ladder
