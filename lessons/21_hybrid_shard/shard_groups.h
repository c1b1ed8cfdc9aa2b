// Which ranks share one copy of the model: shard_size consecutive ranks, usually those of a
// machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/grid/process_grid.h"
#include "common/train/trainer/flag_value.h"

namespace ladder {

// Returns whether a group of shard_size consecutive ranks is on more than one machine. `machine_of`
// has the machine of each rank as a number; if it is empty, all ranks are on one.
bool groups_cross_machines(const std::vector<size_t>& machine_of, size_t shard_size);

struct ShardFlags {
  size_t shard_size = 0;  // S; 0: the ranks of a machine
  void add_to(FlagTable& flags);

  // Returns the grid in which S consecutive ranks are a group on the axis `shard`, and ranks with
  // the same number in their groups are one on the axis `replica`. Throws a UserError if S does not
  // divide the ranks. Without the flag S is the number of all ranks until adjust() knows the
  // machines.
  ProcessGrid arrange(size_t num_ranks, size_t rank) const;
  // Sets S if the flag is not given. If machines have unequally many ranks it throws a UserError,
  // unless the flag is given and no group crosses machines.
  void adjust(const std::vector<size_t>& machine_of);
};

// Returns the number that a rank of the grid has in the layout, where the ranks that hold the same
// shard are consecutive: with N/S replicas, rank r has (r mod S) N/S + floor(r / S).
size_t layout_rank(const ProcessGrid& grid);

}  // namespace ladder
