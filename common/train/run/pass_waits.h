// A host that waits for the device between the passes of a step.
#pragma once

#include "kernels/runtime/scoped_observer.h"

namespace ladder {

// While it lives, the host waits for all that is queued on the stream before it queues a pass, the
// forward or the backward of a micro-batch. What other streams still send goes on. Programs do so
// whose timers measure the device, or that synchronize it after each message between stages
// (OtherProgram::host_waits_for_passes).
class PassWaits final : public ScopedObserver {
 public:
  using ScopedObserver::ScopedObserver;

  void on_pass() override {
    ScopedObserver::on_pass();
    stream().synchronize();
  }
};

}  // namespace ladder
