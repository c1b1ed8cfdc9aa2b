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

// A Worker is one thread that runs tasks in the order in which they are started. It sleeps while
// there are none.
class Worker {
 public:
  // Starts the thread, which uses the same GPU as the calling thread.
  explicit Worker(DeviceType device);
  // Returns when all tasks have run.
  ~Worker();

  enum class Kind { send, other };
  // Queues `task`. wait() of the returned Work returns when the task has run, throws what the task
  // threw, and gives `record_wait` the seconds that it waited: on the CPU the host, on a device the
  // stream, which may still compute while the host waits.
  Work start(Kind kind, std::function<void()> task, std::function<void(double)> record_wait);
  // Returns when no task is queued or running.
  void drain();
  // Returns when no task but sends is queued or running.
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
  size_t num_others_ = 0;   // how many of `tasks_` are not sends
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ladder
