// What lessons 07 to 09, whose ranks split the model, have to pass alike.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/system/mpirun.h"

namespace ladder {

// Two steps of nano with four layers and heads in fp64, with an evaluation after each and a
// sample.
extern const Flags kSplitRun;

// argv (a program and its flags) on `num_ranks` ranks, with kSplitRun: in shared memory, by
// messages, with calls compared, and on the device of this build staged and by NCCL, or a sample of
// these ways. Fails the test unless all dump what lesson 01 dumps, to 1e-11, with the same
// validation losses and the same sample, and memory and bytes are as predicted.
void check_ways_to_communicate(size_t num_ranks, const Flags& argv);

// Calls and payload bytes by axis, purpose and operation.
using StepTraffic = std::map<std::string, std::pair<size_t, size_t>>;
// The same run with --metrics and --no-shared-memory, `more` and all flags in a file for --config,
// and weights from a file: zeros, so that the first loss is log(256). Returns what rank 0
// communicates in a step but for control traffic; fails the test unless that is the same in every
// step.
StepTraffic traffic_of_run_from_files(size_t num_ranks, const std::string& program,
                                      const std::map<std::string, std::string>& more);

// The spans' names of each rank in a trace. Fails the test unless the file is JSON of which
// Perfetto takes all (tests/common/train/perfetto.h).
std::vector<std::multiset<std::string>> spans_of_trace(const std::string& file, size_t num_ranks);

// Fails the test unless `text` is XML as far as its tags go.
void check_well_formed(const std::string& text);

}  // namespace ladder
