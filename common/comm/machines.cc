#include "common/comm/machines.h"

#include <map>

namespace ladder {

Machines::Machines(const std::vector<size_t>& machine_of, size_t rank) : rank_(rank) {
  std::map<size_t, size_t> index_of;
  for (size_t r = 0; r < machine_of.size(); ++r) {
    const size_t machine = index_of.try_emplace(machine_of[r], ranks_.size()).first->second;
    if (machine == ranks_.size()) ranks_.emplace_back();
    machine_of_.push_back(machine);
    local_rank_of_.push_back(ranks_[machine].size());
    ranks_[machine].push_back(r);
  }
  for (size_t r = 0; r < machine_of_.size(); ++r) {
    // A rank alone on its machine sends its own elements from where they are.
    if (ranks_[machine_of_[r]].size() == 1) continue;
    size_t num_carried = 0;
    for (size_t slice = 0; slice < machine_of_.size(); ++slice) num_carried += carries(r, slice);
    most_slices_ = std::max(most_slices_, num_carried);
  }
  most_slices_ += ranks_.size() - 1;
}

}  // namespace ladder
