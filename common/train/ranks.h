// What a trainer on several ranks finds beside the context of one rank.
#pragma once

#include "common/comm/grid_groups.h"

namespace ladder {

struct RankContext {
  const ProcessGrid& grid;
  Communicator& world;  // all ranks
  // Groups along the axes of the grid; null in lessons whose ranks form one group.
  GridGroups* groups = nullptr;
  // The group along an axis. REQUIRES: there are groups.
  Communicator& on(Axis axis) const { return (*groups)[axis]; }
  // Where memory comes from that collectives work on without copies; null: from the arena.
  MemorySource* registered = nullptr;
};

}  // namespace ladder
