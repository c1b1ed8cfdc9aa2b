// The kernels that a step of a lesson calls, found on the virtual device.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/cost.h"

namespace ladder {

// A lesson and the flags of its program, apart from those that say where it runs.
struct LessonRun {
  std::string lesson;  // "02_ddp"
  std::vector<std::string> flags;
};

// A kernel with a dtype and a cost, and how often the ranks of a step call it. Copies are the
// kernel "copy".
struct CountedCall {
  KernelCall call;
  size_t count;
};

struct StepCalls {
  std::vector<CountedCall> kernels;  // no two are alike
  size_t bytes = 0;                  // peak memory of the rank that needs most
};

// Returns the names of the lessons whose kernels are measured: those from 01 to 10.
std::vector<std::string> lessons_to_calibrate();

// Returns what a step of the lesson calls on so many ranks. Throws UserError if there is no such
// lesson, or if it refuses the flags or the number of ranks.
StepCalls calls_of_step(const LessonRun& run, size_t num_ranks);

}  // namespace ladder
