// A host that waits for the device between the passes of a step.
#pragma once

#include <string>
#include <string_view>

#include "kernels/runtime/stream.h"

namespace ladder {

// While it lives, the host first waits for all that is queued on the stream when it begins a pass:
// the forward of a micro-batch with its loss, its backward, or the optimizer. So does a program
// whose timers measure the device, or that synchronizes it after each message between stages
// (OtherProgram::host_waits_for_passes). It tells the stream's observer what it observes.
class PassWaits final : public StreamObserver {
 public:
  explicit PassWaits(Stream& stream) : stream_(stream), next_(stream.observer()) {
    stream.set_observer(this);
  }
  ~PassWaits() override { stream_.set_observer(next_); }
  PassWaits(const PassWaits&) = delete;
  PassWaits& operator=(const PassWaits&) = delete;

  void on_begin(std::string_view name) override;
  void on_range(std::string_view name, Time begin, Time end) override;

 private:
  enum class Pass { none, forward, backward, optimizer };
  static Pass pass_of(std::string_view name);

  Stream& stream_;
  StreamObserver* next_;
  Pass pass_ = Pass::none;  // that runs
  std::string first_;       // range of it: if it comes again, it is that of the next micro-batch
};

}  // namespace ladder
