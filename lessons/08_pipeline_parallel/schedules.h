// The order of work in a pipeline: naive, GPipe and 1F1B.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/schedule/schedule.h"

namespace ladder {

// naive         a micro-batch goes forward and back through all stages before the next one starts
// gpipe         all micro-batches forward, then all back                      [Huang18 GPipe]
// one_f_one_b   "1f1b": as soon as a micro-batch has come back to a stage, one forward and one
//               backward in turn; the bubble is GPipe's, but a stage holds at most as many
//               micro-batches as there are stages    [Narayanan19 PipeDream, Narayanan21 2.2]
enum class ScheduleKind { naive, gpipe, one_f_one_b };
std::string_view name_of(ScheduleKind kind);

// How many micro-batches the stage holds at a time: 1, m, min(m, p - stage), where m and p are the
// numbers of micro-batches and of stages. So many slots it uses.
size_t max_in_flight(ScheduleKind kind, size_t stage, size_t num_stages, size_t num_micro_batches);

// What every stage does in a step. All kinds run the backwards in the order of the forwards, 0 to
// m - 1 (GPipe's paper goes from the last to the first): so gradients are added up in the order of
// lesson 01, and all kinds give the same bits. One stage sends and reduces nothing; m < p will do.
// `reduces_embedding`: the first and the last stage add up the gradients of a unit that both hold.
Schedule make_schedule(ScheduleKind kind, size_t num_stages, size_t num_micro_batches,
                       bool reduces_embedding = true);

}  // namespace ladder
