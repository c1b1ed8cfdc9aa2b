// Programs on several ranks, started as tools/run starts them.
#pragma once

#include <cstddef>

#include "tests/system/single_gpu.h"
#include "tools/programs/process.h"

namespace ladder {

// tools/mpirun; "-n", a number and a program may follow.
Flags mpirun_command();

// Runs argv[0] under mpirun to the end of all ranks.
ProcessResult run_ranks(size_t num_ranks, const Flags& argv, ProcessOptions options = {});
// The same with one rank for each command: rank 0 runs the first.
ProcessResult run_each(const std::vector<Flags>& commands, ProcessOptions options = {});

// Fails the test unless the program ended with status 0 and was silent on standard error.
void require_success(const ProcessResult& result);
// Runs argv, a program and its flags, on `num_ranks` ranks with outputs asked for too. Fails the
// test unless one rank says, in one line that contains all `mentions`, what the user's mistake is,
// the status is 2, nothing else is said and nothing is written.
void check_refused(size_t num_ranks, const Flags& argv, const std::vector<std::string>& mentions);

// "5.5452" of what a program said, "step 2  validation loss 5.5452"; the text that it said after
// "sample:". Both fail the test if it said no such thing.
std::string validation_loss(const std::string& out, const std::string& step);
std::string sample_of(const std::string& out);

// The device of this build: "emulator", or "cuda" where there is a GPU; "" where there is none,
// which is said.
std::string device_name();

// Returns how many bytes of device workspace a run has measured, by what it printed.
size_t printed_workspace(const std::string& out);

}  // namespace ladder
