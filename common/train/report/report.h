// The text that a run prints on the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "common/comm/job.h"
#include "common/io/text.h"
#include "common/train/program/needed_memory.h"
#include "common/train/program/prediction.h"

namespace ladder {

// Returns every flag in a line, such as "--steps 3" or "--seed 1 (default)".
std::string flags_text(const RunConfig& config);

// Returns the lines before training: the model, the batch, the device, the data, and the memory of
// the rank that needs most. `communication` says in words how ranks communicate.
std::string header_text(const LessonInfo& lesson, const RunConfig& config, const ProcessGrid& grid,
                        const Corpus& corpus, const NeededMemory& memory,
                        const std::string& communication);

// Where the ranks of a run are.
struct Placement {
  size_t node_size = 1;                 // the ranks on this machine
  std::vector<size_t> machine_of = {};  // Job::machines_that_sum()
};

// Returns the table of communication in one step, by axis, purpose and operation. It has the bytes
// that one rank moves, predicted and measured, and the time, exposed (computation waited for it)
// and hidden (it ran while computation went on). Bytes are measured where they move; for a
// collective the table shows the mean over the ranks of its group. NCCL does not count what it
// moves, and the table says "by formula". If ranks are on several machines, it also has the bytes
// that leave machines for others, by rank as well: predicted where the ranks' machines tell, and
// measured. `communicated` is the sum over all steps, from Communicator::group_entries().
std::string communication_table(const Prediction& prediction, const TrafficEntries& communicated,
                                const ProcessGrid& grid, int64_t num_steps, int threads,
                                const Placement& placement);

// Returns the table of peak memory by category, predicted and measured.
std::string memory_table(const Prediction& prediction, const Memory& device, const Memory& host);

// Returns the text of an out-of-memory error: what was in use when memory ran out, what the run
// needs in all, and what to try.
std::string out_of_memory_text(const OutOfMemory& error, const RunConfig& config,
                               const Prediction& prediction);

}  // namespace ladder
