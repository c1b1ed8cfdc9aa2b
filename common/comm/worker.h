// The thread that runs a communicator's background operations.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "common/comm/work.h"

namespace ladder {

// One thread that runs what it is given, in order. Sleeps while there is nothing.
class Worker {
 public:
  // The thread uses the GPU that the caller's uses.
  explicit Worker(DeviceType device);
  // Returns when everything has run.
  ~Worker();

  // Queues `task`. Its Work's wait() lasts until it has run, throws what it threw, and tells
  // `record_wait` the seconds that it lasted.
  Work start(std::function<void()> task, std::function<void(double)> record_wait);
  // Returns when nothing is queued or running.
  void drain();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace ladder
