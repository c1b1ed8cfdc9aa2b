// Programs on several ranks, started as tools/run starts them.
#pragma once

#include <cstddef>

#include "tests/system/process.h"
#include "tests/system/single_gpu.h"

namespace ladder {

// tools/mpirun; "-n", a number and a program may follow.
Flags mpirun_command();

// Runs argv[0] under mpirun to the end of all ranks.
ProcessResult run_ranks(size_t num_ranks, const Flags& argv, ProcessOptions options = {});
// The same for a command of mpirun's own making: "-n", "1", program, ..., ":", "-n", "1", ...
ProcessResult run_mpirun(const Flags& flags, ProcessOptions options = {});

// Lesson 02's program.
std::string ddp_path();

}  // namespace ladder
