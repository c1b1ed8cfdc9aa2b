// Runs of lessons drawn at random: any combination of axes, schedules, cuts and odd sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/mpi_options.h"

namespace ladder::testing {

// One run as its command line, and how its ranks are connected.
struct DrawnRun {
  std::string lesson;  // "09_3d_parallel"
  size_t num_ranks = 1;
  std::vector<std::string> flags;
  MpiOptions connection;
  bool shares_memory = true;  // whether ranks share memory, or send messages alone
  bool is_held_back = false;  // whether ranks and threads are held back (tests/delays.h)

  // Returns the command that repeats the run.
  std::string text() const;
};

// Returns the run of a number and an attempt, on at most 8 ranks. The lesson may refuse its flags,
// since it alone knows what goes together: then the caller makes another attempt.
DrawnRun draw_run(uint32_t number, uint32_t attempt);

}  // namespace ladder::testing
