#include "common/comm/watchdog.h"

#include <utility>

namespace ladder {

Watchdog::Watchdog(std::chrono::duration<double> limit, std::function<void()> bite)
    : thread_([this, limit, act = std::move(bite)] {
        std::unique_lock lock(mutex_);
        while (!changed_.wait_for(lock, limit, [this] { return is_over_; })) act();
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace ladder
