#include "common/comm/machines.h"

#include <map>

namespace ladder {

Machines::Machines(const std::vector<size_t>& machine_of, size_t rank) {
  std::map<size_t, size_t> index_of;
  for (size_t r = 0; r < machine_of.size(); ++r) {
    const size_t machine = index_of.try_emplace(machine_of[r], ranks_.size()).first->second;
    if (machine == ranks_.size()) ranks_.emplace_back();
    machine_of_.push_back(machine);
    place_of_.push_back(ranks_[machine].size());
    ranks_[machine].push_back(r);
  }
  own_ = machine_of_[rank];
  place_ = place_of_[rank];
  std::vector<size_t> num_carried(machine_of_.size());
  for (size_t machine = 0; machine < ranks_.size(); ++machine) {
    for (size_t r = 0; r < machine_of_.size(); ++r) {
      if (machine_of_[r] == machine) continue;
      ++num_carried[carrier(machine, r)];
      if (carrier(machine, r) == rank) carried_.push_back(r);
    }
  }
  for (size_t r = 0; r < machine_of_.size(); ++r) {
    // A rank alone on its machine sends its own elements from where they are.
    const bool is_alone = ranks_[machine_of_[r]].size() == 1;
    most_slices_ = std::max(most_slices_, is_alone ? 0 : num_carried[r]);
  }
  most_slices_ += ranks_.size() - 1;
}

}  // namespace ladder
