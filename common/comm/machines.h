// Which ranks of a group are on which machine, and who carries data between machines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ladder {

// The ranks of a group by machine. Machines are in the order of their first ranks. The ranks of a
// machine are in their own order.
class Machines {
 public:
  // `machine_of` has a number for each rank of the group. Ranks with the same number are on one
  // machine. `rank` is this rank.
  Machines(const std::vector<size_t>& machine_of, size_t rank);

  // The number of machines.
  size_t size() const { return ranks_.size(); }
  const std::vector<size_t>& ranks(size_t machine) const { return ranks_[machine]; }
  // This rank's machine, its ranks, and this rank's place among them.
  size_t own() const { return machine_of_[rank_]; }
  const std::vector<size_t>& here() const { return ranks_[own()]; }
  size_t local_rank() const { return local_rank_of_[rank_]; }
  bool is_here(size_t rank) const { return machine_of_[rank] == own(); }
  size_t machine_of(size_t rank) const { return machine_of_[rank]; }
  // Returns the place of a rank among the ranks of its machine.
  size_t local_rank_of(size_t rank) const { return local_rank_of_[rank]; }

  // Returns the rank of `machine` that handles slice `rank` of a vector there: sends it to the rank
  // that owns it, or receives it from there. The owner does so on its own machine. Elsewhere the
  // ranks of the machine take turns, so that each carries about equally many slices.
  size_t carrier(size_t machine, size_t rank) const {
    if (machine_of_[rank] == machine) return rank;
    return ranks_[machine][rank % ranks_[machine].size()];
  }
  // Returns whether `rank` carries slice `slice` although another machine has its owner.
  bool carries(size_t rank, size_t slice) const {
    return machine_of_[rank] != machine_of_[slice] && carrier(machine_of_[rank], slice) == rank;
  }
  // Returns whether it is the rank's turn if the ranks of each machine do something one by one.
  bool has_turn(size_t rank, size_t turn) const {
    return local_rank_of_[rank] == turn % ranks_[machine_of_[rank]].size();
  }
  // Returns how many slices a rank of this group holds at most while it sums slices: what it sends
  // for slices of other machines, and what it receives for its own from each of them. The same on
  // all ranks.
  size_t most_slices() const { return most_slices_; }

 private:
  size_t rank_;
  std::vector<size_t> machine_of_, local_rank_of_;
  std::vector<std::vector<size_t>> ranks_;
  size_t most_slices_ = 0;
};

}  // namespace ladder
