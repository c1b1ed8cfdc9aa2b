// The order of work in a pipeline: naive, GPipe and 1F1B.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/schedule/schedule.h"

namespace ladder {

// naive         A micro-batch goes forward and back through all stages before the next one starts.
// gpipe         All micro-batches go forward, then all go back.               [Huang18 GPipe]
// one_f_one_b   "1f1b": once a micro-batch has come back to a stage, it does one forward and one
//               backward in turn. The bubble is GPipe's, but a stage holds at most as many
//               micro-batches as there are stages.   [Narayanan19 PipeDream, Narayanan21 2.2]
enum class ScheduleKind { naive, gpipe, one_f_one_b };
std::string_view name_of(ScheduleKind kind);

// Returns how many micro-batches the stage holds at a time, which is the number of buffers it uses.
// With m micro-batches and p stages it is 1 (naive), m (gpipe) or min(m, p - stage) (1f1b).
size_t max_in_flight(ScheduleKind kind, size_t stage, size_t num_stages, size_t num_micro_batches);

// Returns what every stage does in a step. All kinds run the backwards in the order of the forwards
// (GPipe's paper goes from the last to the first). So gradients are added up in the order of lesson
// 01, and all kinds give the same bits. There may be fewer micro-batches than stages; one stage
// sends nothing. `reduces_embedding`: the first and the last stage sum the unit that both hold.
Schedule make_schedule(ScheduleKind kind, size_t num_stages, size_t num_micro_batches,
                       bool reduces_embedding = true);

}  // namespace ladder
