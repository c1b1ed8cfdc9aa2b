#include "common/comm/ledger.h"

namespace ladder {

void Ledger::add(const TrafficKey& key, const Traffic& traffic) {
  const std::lock_guard lock(mutex_);
  entries_[key] += traffic;
}

TrafficEntries Ledger::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

}  // namespace ladder
