// The stream of a communicator whose operations are queued on the device.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/work.h"

namespace ladder {

// Operations run on the queue's stream in the order of their calls, while the caller's streams go
// on. Events connect the two: the queue waits for what was queued on the caller's stream before the
// call, and the caller's stream waits for the operation at the point where its Work is waited for.
// The host waits for neither.
class DeviceQueue {
 public:
  // An operation begins when its inputs are ready, so its busy time includes the wait for the
  // slowest rank. The exposed seconds are those for which the caller's stream stood still.
  struct Times {
    Time begin, end;
    double busy_seconds, exposed_seconds;
  };
  using Report = std::function<void(const Times&)>;

  // Peers wait for an operation that is late, so it goes before computation that waits for a place,
  // unless the group has one rank and another priority.
  explicit DeviceQueue(DeviceType device, StreamPriority priority = StreamPriority::high);

  // Calls `enqueue` with the queue's stream, which then waits for what is queued on `stream` now.
  // A later resolve() calls `report`.
  Work start(Stream& stream, const std::function<void(Stream&)>& enqueue, Report report);
  // Reports the times of operations, oldest first, until only `keep` are left or one comes whose
  // Work has not been waited for. The host waits until the reported operations have ended.
  void resolve(size_t keep = 0);

 private:
  class Operation;

  Stream stream_;
  // The device passed `origin_` when the host's clock said `origin_time_`. So times that the device
  // measures from there can be told on the host's clock. CUDA tells them as a float, which after an
  // hour has steps of a quarter of a millisecond, so the origin moves on with the operations.
  std::shared_ptr<Event> origin_ = std::make_shared<Event>();
  Time origin_time_;
  std::deque<std::shared_ptr<Operation>> unresolved_;
};

}  // namespace ladder
