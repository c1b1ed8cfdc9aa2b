// What a simulated device computes for each range of work that its host queued: "h.3 backward".
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "common/virtual/devices.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// The device began the first operation of a range at `begin` and ended the last one at `end`, in
// seconds. `busy` is how long its operations took together.
struct UnitTime {
  std::string name;
  double begin = 0, end = 0, busy = 0;
};

// UnitTimes observes one stream of a simulated device. The host queues a range long before the
// device runs it; so operations, which come when they end, are matched with ranges by the time at
// which they were queued. REQUIRES: ranges of the stream do not nest.
class UnitTimes final : public StreamObserver {
 public:
  // `launch_seconds`: what queueing an operation takes the host; 0 = it waits for each of them.
  // `done` is called for each range that had operations, in the order of the ranges.
  UnitTimes(double launch_seconds, std::function<void(const UnitTime&)> done)
      : launch_seconds_(launch_seconds), done_(std::move(done)) {}

  void on_range(std::string_view name, Time begin, Time end) override;
  void add(const DeviceSpan& span);
  // Calls done() for what is left. REQUIRES: all operations have ended.
  void finish();

 private:
  struct Range {
    double begin, end;  // of queueing
    UnitTime work;
  };
  struct Operation {
    double queued, begin, end;
  };
  void match();
  void end_first();

  double launch_seconds_;
  std::function<void(const UnitTime&)> done_;
  std::deque<Range> ranges_;
  std::deque<Operation> operations_;
};

}  // namespace ladder
