// A rank of a lesson's program within an Engine: what it needs to take steps on simulated time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/data/corpus.h"
#include "common/train/program/program.h"
#include "common/virtual/engine.h"

namespace ladder {

// Returns the run that the flags ask for, as the program resolves them for so many ranks. Throws
// UserError if they do not go together, or if --help is among them. Afterwards the program's own
// functions use these flags.
RunConfig resolve_flags(const Program& program, const std::vector<std::string>& flags,
                        size_t num_ranks);

// A rank's place, and its memory. Tensors on the device have addresses but no memory.
struct SimulatedRank {
  // `host_memory` must outlive this object.
  SimulatedRank(const RunConfig& config, const ProcessGrid& grid, MemorySource& host_memory);

  ProcessGrid grid;
  Memory device, host;
};

// Calls body(context, world) with what a trainer of this rank needs, for as long as it takes.
// REQUIRES: the engine runs this rank.
void run_simulated_rank(
    const Program& program, const RunConfig& config, const Corpus& corpus, Engine& engine,
    SimulatedRank& rank,
    const std::function<void(const TrainerContext& context, Communicator& world)>& body);

}  // namespace ladder
