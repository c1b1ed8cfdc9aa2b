// How the host waits for a device when the device may wait for another process.
#pragma once

#include <functional>

namespace ladder {

// While a WaitCheck exists, its function is called now and then in every thread of the host that
// waits for a stream or an event. If it throws, the wait ends with what it throws. NCCL's kernels
// need this: if the process on the other side dies, they never end, and neither would a wait for
// them (github.com/NVIDIA/nccl/issues/1013).
class WaitCheck {
 public:
  // `check` may be called by several threads at the same time.
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;
};

// Returns when has_passed() returns true. If there is a WaitCheck, it asks again and again, and
// calls the checks in between; else it calls wait(), which must return when has_passed() is true.
void wait_with_checks(const std::function<bool()>& has_passed, const std::function<void()>& wait);

}  // namespace ladder
