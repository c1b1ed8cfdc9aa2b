// Checks of runs that go on from a checkpoint, for lesson 17.
#pragma once

#include <string>

#include "tools/course/grader/checks.h"

namespace ladder {

// Ranks that write a checkpoint, and ranks that go on from it.
struct Relay {
  Training writers, readers;
};

// The learner's program, going on after the first step, has the bits of the lesson's own in all
// that it dumps after the second. The lesson's own program has written the checkpoint.
Check resumed(int points, const std::string& name, const Relay& relay, const std::string& hint);
// It has read no more bytes than the lesson's own program, where results are right.
Check bytes_read(int points, const Relay& relay, const std::string& hint);

}  // namespace ladder
