// Lines at the end of a run about what was counted, of all ranks together.
#pragma once

#include <cstdint>
#include <string>

#include "common/comm/job.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// Returns a line with the tokens that counted, of all ranks together, and what the losses were
// divided by, which must be as many. It is empty if nobody counted. Collective.
std::string counted_text(const CountedTokens& own, const ProcessGrid& grid, const Job& job);

// Returns what each update rule had of the model, and with Muon the calls that made matrices
// orthogonal, of all ranks together, and how many matrices and steps these are. It is empty with
// AdamW alone. Collective.
std::string optimizer_text(const RunConfig& config, Trainer& trainer, int64_t num_steps,
                           const Job& job);

}  // namespace ladder
