// A time limit for what may never end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ladder {

// Calls `bite` in a thread of its own each time the limit has passed, until it is destroyed.
class Watchdog {
 public:
  Watchdog(std::chrono::duration<double> limit, std::function<void()> bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ladder
