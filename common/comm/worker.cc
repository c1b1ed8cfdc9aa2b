#include "common/comm/worker.h"

#include <exception>
#include <system_error>
#include <utility>

#include "common/comm/delay.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

class Started final : public Work::State {
 public:
  explicit Started(std::function<void(double)> record_wait)
      : record_wait_(std::move(record_wait)) {}

  void run(const std::function<void()>& body) {
    std::exception_ptr thrown;
    try {
      body();
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
    const bool is_on_device = stream.device() != DeviceType::cpu;
    Event reached;
    if (is_on_device) reached.record(stream);
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    record_wait_(is_on_device ? seconds_idle(stream, reached) : seconds_since(begin));
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Returns how long the stream has had nothing to do since it came to the mark.
  static double seconds_idle(Stream& stream, const Event& reached) {
    if (!reached.has_passed()) return 0;
    Event now;
    now.record(stream);
    now.synchronize();  // at once
    return 1e-3 * Event::elapsed_ms(reached, now);
  }

  std::function<void(double)> record_wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
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

Work Worker::start(Kind kind, std::function<void()> task, std::function<void(double)> record_wait) {
  auto state = std::make_shared<Started>(std::move(record_wait));
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
