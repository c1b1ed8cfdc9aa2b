// The thread that runs a communicator's background operations.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/runtime/work.h"

namespace ladder {

// One thread that runs what it is given, in order. Sleeps while there is nothing.
class Worker {
 public:
  // The thread uses the GPU that the caller's uses.
  explicit Worker(DeviceType device);
  // Returns when everything has run.
  ~Worker();

  enum class Kind { send, other };
  // Queues `task`. Its Work's wait() lasts until it has run, throws what it threw, and tells
  // `record_wait` the seconds that it lasted.
  Work start(Kind kind, std::function<void()> task, std::function<void(double)> record_wait);
  // Returns when nothing is queued or running.
  void drain();
  // The same, but for sends.
  void drain_others();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  struct Task {
    Kind kind;
    std::function<void()> body;
  };
  std::deque<Task> tasks_;  // the first one is running
  size_t num_others_ = 0;   // of these
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ladder
