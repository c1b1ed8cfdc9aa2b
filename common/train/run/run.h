// The main function of every lesson.
#pragma once

#include "common/train/program/program.h"

namespace ladder {

// Joins the other ranks, if mpirun has started some, reads the flags, trains, and reports. Returns
// the exit status: 0 done, 2 the user's mistake, 128 + the number of a signal that has ended the
// run after a step (interruptions.h), 1 anything else. A rank that fails ends all ranks.
int run(const Program& program, int argc, const char* const* argv);

// Does the same for the program of a trainer class.
template <class T>
int run(int argc, char** argv) {
  return run(make_program<T>(), argc, argv);
}

}  // namespace ladder
