// What was communicated: calls and bytes by purpose, operation and axis.
#pragma once

#include <mutex>

#include "common/grid/traffic.h"

namespace ladder {

// One rank's traffic. Thread-safe.
class Ledger {
 public:
  void add(const TrafficKey& key, const Traffic& traffic);
  TrafficEntries entries() const;

 private:
  mutable std::mutex mutex_;
  TrafficEntries entries_;
};

}  // namespace ladder
