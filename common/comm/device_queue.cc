#include "common/comm/device_queue.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

// Operations whose events are kept while nobody asks for the times; beyond them the older half is
// resolved.
constexpr size_t kMaxUnresolved = 512;

// How far from the origin times are measured: in ten seconds a float has steps of a microsecond.
constexpr std::chrono::seconds kFarFromOrigin(10);

}  // namespace

class DeviceQueue::Operation final : public Work::State {
 public:
  Operation(DeviceType device, Report report) : device_(device), report_(std::move(report)) {}

  void wait(Stream& stream) override {
    check(stream.device() == device_, "Work::wait: a stream of another device than the operation");
    reached_.record(stream);
    stream.wait(*end);
    waited_for_ = true;
  }

  bool waited_for() const { return waited_for_; }

  // Returns the time of the end. REQUIRES: waited_for().
  Time report(const Event& origin, Time origin_time) {
    end->synchronize();
    reached_.synchronize();
    const auto time_of = [&](const Event& event) {
      const std::chrono::duration<double, std::milli> since(Event::elapsed_ms(origin, event));
      return origin_time + std::chrono::duration_cast<Time::duration>(since);
    };
    const double busy = Event::elapsed_ms(begin, *end);
    // The emulator's streams run in the caller's thread, which has stood still all the while.
    const double exposed = device_ == DeviceType::emulator && Simulation::current() == nullptr
                               ? busy
                               : std::max(0.0, Event::elapsed_ms(reached_, *end));
    report_({time_of(begin), time_of(*end), 1e-3 * busy, 1e-3 * exposed});
    return time_of(*end);
  }

  Event ready, begin;
  std::shared_ptr<Event> end = std::make_shared<Event>();

 private:
  DeviceType device_;
  Report report_;
  Event reached_;  // the caller's stream came to the wait
  bool waited_for_ = false;
};

DeviceQueue::DeviceQueue(DeviceType device, StreamPriority priority) : stream_(device, priority) {
  origin_->record(stream_);
  origin_->synchronize();
  origin_time_ = Clock::now();
}

Work DeviceQueue::start(Stream& stream, const std::function<void(Stream&)>& enqueue,
                        Report report) {
  check(stream.device() == stream_.device(), "a collective: its stream is of another device");
  if (unresolved_.size() > kMaxUnresolved) resolve(kMaxUnresolved / 2);
  const auto operation = std::make_shared<Operation>(stream_.device(), std::move(report));
  operation->ready.record(stream);
  stream_.wait(operation->ready);
  operation->begin.record(stream_);
  enqueue(stream_);
  operation->end->record(stream_);
  unresolved_.push_back(operation);
  return Work(operation);
}

void DeviceQueue::resolve(size_t keep) {
  while (unresolved_.size() > keep && unresolved_.front()->waited_for()) {
    const std::shared_ptr<Operation> operation = std::move(unresolved_.front());
    unresolved_.pop_front();
    const Time end = operation->report(*origin_, origin_time_);
    if (end - origin_time_ < kFarFromOrigin) continue;
    origin_ = operation->end;
    origin_time_ = end;
  }
}

}  // namespace ladder
