// What a run says on the terminal.
#pragma once

#include <cstdint>
#include <string>

#include "common/train/needed_memory.h"
#include "common/train/prediction.h"

namespace ladder {

// The lines before training: model, batch, device, data, memory that the largest rank will need.
// `communication`: how ranks communicate, in words.
std::string header_text(const LessonInfo& lesson, const RunConfig& config, const ProcessGrid& grid,
                        const Corpus& corpus, const NeededMemory& memory,
                        const std::string& communication);

// What a step communicates, by axis, purpose and operation: predicted and measured bytes that one
// rank moves, and the time it took, exposed (waited for) and hidden (beside computation). Measured
// are the bytes counted where they move, of a collective the mean over the ranks of its group;
// where NCCL moves them nobody counts, and the table says "by formula". `communicated`: in all
// steps together, as Communicator::group_entries() gives it.
std::string communication_table(const Prediction& prediction, const TrafficEntries& communicated,
                                const ProcessGrid& grid, int64_t num_steps, int threads,
                                size_t node_size);

// Peak memory, predicted and measured, by category.
std::string memory_table(const Prediction& prediction, const Memory& device, const Memory& host);

// What was in use when memory ran out, what the run needs in all, and what to try.
std::string out_of_memory_text(const OutOfMemory& error, const RunConfig& config,
                               const Prediction& prediction);

// "1234567" as "1,234,567".
std::string with_commas(uint64_t number);

// "0:42", "1:07:03".
std::string clock_text(double seconds);

// `parts` as printf would.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

}  // namespace ladder
