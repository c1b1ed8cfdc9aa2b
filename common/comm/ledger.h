// The ledger of what a rank communicated: calls, bytes and times by purpose, operation and axis
// (common/grid/traffic.h).
#pragma once

#include <mutex>

#include "common/grid/traffic.h"

namespace ladder {

// A Ledger sums up one rank's traffic. It is thread-safe.
class Ledger {
 public:
  // Adds to the entry with this key, which need not exist yet.
  void add(const TrafficKey& key, const Traffic& traffic);
  TrafficEntries entries() const;

 private:
  mutable std::mutex mutex_;
  TrafficEntries entries_;
};

}  // namespace ladder
