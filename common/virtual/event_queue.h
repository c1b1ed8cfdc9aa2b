// Things that will happen, in the order of their times.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace ladder {

// Something that happens to a stream or to a meeting. `version` is that of the stream or meeting
// when the event was added. If it has another one by then, the event is out of date.
struct TimedEvent {
  enum class Kind : uint32_t { begin, end_of_work, end_of_meeting };
  double time;      // in seconds
  uint64_t number;  // in the order in which events were added
  Kind kind;
  uint32_t id;
  uint64_t version;
};

// Events of the same time come in the order in which they were added, so that every run is the
// same.
class EventQueue {
 public:
  void add(double time, TimedEvent::Kind kind, uint32_t id, uint64_t version) {
    events_.push({time, next_++, kind, id, version});
  }
  bool empty() const { return events_.empty(); }
  TimedEvent take() {
    const TimedEvent first = events_.top();
    events_.pop();
    return first;
  }

 private:
  struct Later {
    bool operator()(const TimedEvent& a, const TimedEvent& b) const {
      return std::tie(a.time, a.number) > std::tie(b.time, b.number);
    }
  };
  std::priority_queue<TimedEvent, std::vector<TimedEvent>, Later> events_;
  uint64_t next_ = 0;
};

}  // namespace ladder
