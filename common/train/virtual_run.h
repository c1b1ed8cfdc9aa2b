// A run of a lesson's trainer on the virtual device: all ranks in this process, on a simulated
// clock.
#pragma once

#include "common/comm/job.h"
#include "common/train/options.h"
#include "common/train/program.h"

namespace ladder {

// Runs two steps of the program on the cluster that the flags name, as every rank of it would, and
// prints the tables of a run for the second step: its time, memory, communication. Nothing is
// computed. Memory is what the trainers allocate; times are the cluster's (common/virtual). Throws
// UserError if the flags do not go together, and an Error if memory would run out or ranks wait for
// each other for ever.
void run_virtual(const Program& program, const Options& options, const Job& job);

}  // namespace ladder
