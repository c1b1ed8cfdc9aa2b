#include "common/comm/worker.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "common/comm/delay.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

class Started final : public Work::State {
 public:
  Started(std::shared_ptr<Event> ready, std::function<void(double)> record_wait)
      : ready_(std::move(ready)), record_wait_(std::move(record_wait)) {}

  void run(const std::function<void()>& body) {
    std::exception_ptr thrown;
    try {
      if (ready_) ready_->synchronize();
      const Time begin = Clock::now();
      body();
      busy_seconds_ = seconds_since(begin);
    } catch (...) {
      thrown = std::current_exception();
    }
    maybe_delay("worker: before the end is told");
    const std::lock_guard lock(mutex_);
    error_ = std::move(thrown);
    done_ = true;
    changed_.notify_all();
  }

  void wait(Stream& stream) override {
    maybe_delay("told: a task is waited for");
    const bool is_on_device = ready_ && stream.device() != DeviceType::cpu;
    Event reached;
    if (is_on_device) reached.record(stream);
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    record_wait_(is_on_device ? exposed_on_device(reached) : seconds_since(begin));
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Returns how long the stream has been idle: it came here so long after it had passed `ready_`,
  // when the task began. If it still computes, it has not been idle.
  double exposed_on_device(const Event& reached) const {
    if (!reached.has_passed()) return 0;
    return std::max(0.0, busy_seconds_ - 1e-3 * Event::elapsed_ms(*ready_, reached));
  }

  const std::shared_ptr<Event> ready_;
  std::function<void(double)> record_wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  double busy_seconds_ = 0;
  std::exception_ptr error_;
};

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    fail(concat(
        "no thread could be started for operations in the background: ", error.code().message(),
        "; the system limits threads (ulimit -u, a container's limit of processes) and the "
        "memory of their stacks (ulimit -v)"));
  }
}

}  // namespace

Worker::Worker(DeviceType device)
    : thread_(start_thread([this, device, number = selected_device(device)] {
        select_device(device, number);
        loop();
      })) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work Worker::start(Kind kind, std::shared_ptr<Event> ready, std::function<void()> task,
                   std::function<void(double)> record_wait) {
  auto state = std::make_shared<Started>(std::move(ready), std::move(record_wait));
  maybe_delay("told: a task is to be queued");
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({kind, [state, body = std::move(task)] { state->run(body); }});
    if (kind == Kind::other) ++num_others_;
  }
  maybe_delay("worker: a task is queued");
  changed_.notify_all();
  maybe_delay("told: a task is started");
  return Work(state);
}

void Worker::drain() {
  maybe_delay("told: a task is waited for");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.empty(); });
}

void Worker::drain_others() {
  maybe_delay("told: a task is waited for");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_others_ == 0; });
}

void Worker::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task& task = tasks_.front();  // stays where it is while others are added
    lock.unlock();
    maybe_delay("worker: before a task");
    task.body();
    maybe_delay("worker: after a task");
    lock.lock();
    if (task.kind == Kind::other) --num_others_;
    tasks_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace ladder
