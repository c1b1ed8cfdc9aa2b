// The stream of a communicator whose operations are queued on the device.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/work.h"

namespace ladder {

// Operations run on this stream in the order of their calls, beside what the caller's streams do.
// Events tie the two: the queue waits for what was queued on the caller's stream before the call,
// and the caller's stream waits for the operation where its Work is waited for. The host waits for
// neither.
class DeviceQueue {
 public:
  // When an operation began, which is when its inputs were ready, and ended (so it includes the
  // time until the slowest rank came), and for how long the caller's stream stood still for it.
  struct Times {
    Time begin, end;
    double busy_seconds, exposed_seconds;
  };
  using Report = std::function<void(const Times&)>;

  explicit DeviceQueue(DeviceType device);

  // Calls `enqueue` with the queue's stream. `report` is called by resolve(), later.
  Work start(Stream& stream, const std::function<void(Stream&)>& enqueue, Report report);
  // Reports the times of operations that have been waited for, oldest first, but for the last
  // `keep` operations; returns when they have ended.
  void resolve(size_t keep = 0);

 private:
  class Operation;

  Stream stream_;
  Event origin_;      // passed at origin_time_
  Time origin_time_;  // of the host, so that the device's times can be told in its terms
  std::deque<std::shared_ptr<Operation>> unresolved_;
};

}  // namespace ladder
