// The graded exercises of lessons 11 and later.
#pragma once

#include <vector>

#include "tools/course/grader/checks.h"

namespace ladder {

std::vector<Check> activation_checkpointing();
std::vector<Check> compression();
std::vector<Check> sequence_parallel();
std::vector<Check> context_parallel();
std::vector<Check> experts();
std::vector<Check> pipeline_schedules();
std::vector<Check> elastic();
std::vector<Check> fine_tuning();
std::vector<Check> planning();
std::vector<Check> muon();
std::vector<Check> hybrid_shard();

}  // namespace ladder
