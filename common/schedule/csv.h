// Writes pipeline schedules for other programs.
#pragma once

#include <string>

#include "common/schedule/placement.h"
#include "common/schedule/schedule.h"

namespace ladder {

// Returns the work of a schedule as PyTorch's torch.distributed.pipelining reads it ("compute
// only", _PipelineScheduleRuntime._load_csv): a line for each stage, which PyTorch calls a rank. An
// action is the number of the virtual stage, which PyTorch calls a stage; F, B, or I and W for the
// halves of backward; and the micro-batch. So stage 0 of two in 1F1B begins with 0F0,0F1,0B0.
// Messages are left out: PyTorch adds its own.
std::string csv_of(const Schedule& schedule, const ChunkPlacement& placement);

}  // namespace ladder
