// Runs on several ranks in which something breaks: all ranks end, and the reason is read once.
#pragma once

#include "tests/system/mpirun.h"

namespace ladder {

// argv is a program and its flags, without --steps and --metrics. Ends one of `num_ranks` by
// `signal` while they train. Fails the test unless within half a minute nobody is left, the status
// says which signal it was, and one line does so too, with the rank and `signal_text`.
void check_killed_rank(size_t num_ranks, const Flags& argv, int signal,
                       const std::string& signal_text);

// Fails the test unless one rank has said why for all, the text contains all `mentions`, and the
// status is 1.
void check_one_error(const ProcessResult& result, const std::vector<std::string>& mentions);

}  // namespace ladder
