#include "common/comm/token_bucket.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/runtime/check.h"

namespace ladder {

void TokenBucket::send(size_t bytes, const std::atomic<bool>& given_up) {
  using std::chrono::milliseconds;
  const std::chrono::duration<double> takes(static_cast<double>(bytes) * seconds_per_byte_);
  Time leaves;
  {
    const std::lock_guard lock(mutex_);
    free_ = std::max(free_, Clock::now() - milliseconds(1)) +
            std::chrono::duration_cast<Time::duration>(takes);
    leaves = free_;
  }
  while (true) {
    check(!given_up, "given up after an error");
    const Time now = Clock::now();
    if (now >= leaves) return;
    std::this_thread::sleep_until(std::min(leaves, now + milliseconds(50)));
  }
}

}  // namespace ladder
