// The part of a trainer's context that exists only on several ranks.
#pragma once

#include "common/comm/grid_groups.h"

namespace ladder {

// The ranks of a run and how they are arranged. Everything outlives the trainer.
struct RankContext {
  const ProcessGrid& grid;
  Communicator& world;  // all ranks
  // The groups along the axes of the grid. Null in lessons whose ranks form one group.
  GridGroups* groups = nullptr;
  // Returns the group along an axis. REQUIRES: groups is not null.
  Communicator& on(Axis axis) const { return (*groups)[axis]; }
  // Returns the group of the ranks that hold the same part of the model (ProcessGrid::replicas).
  Communicator& replicas() const { return on(grid.replicas()); }
  // The source of memory that collectives use without copies. Null if there is none; buffers then
  // come from the arena's own source.
  MemorySource* registered = nullptr;
};

}  // namespace ladder
