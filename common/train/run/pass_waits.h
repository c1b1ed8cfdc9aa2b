// A host that waits for the device between the passes of a step.
#pragma once

#include <string_view>

#include "kernels/runtime/stream.h"

namespace ladder {

// While it lives, the host waits for all that is queued on the stream before it queues a pass, the
// forward or the backward of a micro-batch. What other streams still send goes on. Programs do so
// whose timers measure the device, or that synchronize it after each message between stages
// (OtherProgram::host_waits_for_passes). It tells the stream's observer what it observes.
// REQUIRES: no Range of the stream is open when it is made or ends.
class PassWaits final : public StreamObserver {
 public:
  explicit PassWaits(Stream& stream) : stream_(stream), next_(stream.observer()) {
    stream.set_observer(this);
  }
  ~PassWaits() override { stream_.set_observer(next_); }
  PassWaits(const PassWaits&) = delete;
  PassWaits& operator=(const PassWaits&) = delete;

  void on_pass() override {
    if (next_ != nullptr) next_->on_pass();
    stream_.synchronize();
  }
  void on_range(std::string_view name, Time begin, Time end) override {
    if (next_ != nullptr) next_->on_range(name, begin, end);
  }

 private:
  Stream& stream_;
  StreamObserver* next_;
};

}  // namespace ladder
