// The streams of simulated devices: what is queued on them runs as time passes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "common/virtual/event_queue.h"
#include "common/virtual/time_model.h"
#include "kernels/runtime/simulation.h"

namespace ladder {

// What a stream has done: an operation that used `port` from `begin` to `end`, in seconds. The host
// had queued it at `issued`. For an operation between ranks it began when the last of them had
// come; this rank came at `came`.
struct DeviceSpan {
  size_t rank;
  const char* name;
  Port port;
  double issued, came, begin, end;
};

// Devices holds the streams of all ranks. Each has a queue of operations and runs the first of
// them: work, a mark (a point that others can wait for, like a CUDA event), a wait for one, or a
// meeting, which begins when all ranks that take part have come to it and ends for all at the same
// time. Operations that run at the same time and use the same port are slower (TimeModel). The same
// calls give the same times to the bit.
class Devices {
 public:
  using StreamId = Simulation::StreamId;
  using MarkId = Simulation::MarkId;
  using MeetingId = uint32_t;

  Devices(const TimeModel& model, size_t num_ranks);

  StreamId add_stream(size_t rank);
  // REQUIRES: nothing is queued on the stream.
  void remove_stream(StreamId stream);
  size_t rank_of(StreamId stream) const { return streams_[stream].rank; }

  // Queue operations. None begins before the time `issued`, at which the host has queued it.
  void add_work(StreamId stream, double issued, const char* name, Port port, double seconds);
  MarkId add_mark(StreamId stream, double issued);
  void add_wait(StreamId stream, double issued, MarkId mark);
  void add_meeting(StreamId stream, double issued, MeetingId meeting);

  // Makes a meeting of so many streams that takes so many seconds once all have come. Its id
  // is free again when it is over.
  MeetingId make_meeting(const char* name, Port port, double seconds, size_t num_streams);

  bool is_idle(StreamId stream) const;
  bool has_passed(MarkId mark) const { return marks_[mark].time >= 0; }
  double time_of(MarkId mark) const { return marks_[mark].time; }
  // Forgets a mark. What waits for it still does so.
  void release(MarkId mark);
  // Calls `passed` once, when a stream passes the mark. REQUIRES: no stream has passed it yet.
  void notify(MarkId mark, std::function<void()> passed);

  double now() const { return now_; }
  // Goes on to the next time at which something happens. Returns false if nothing will happen any
  // more.
  bool advance();

  // Is called each time work ends, and for each stream when its meeting ends.
  std::function<void(const DeviceSpan&)> observer;

  // Returns the operations between ranks at the front of the rank's streams, as in "pipeline recv,
  // data all_reduce": what it waits for in a deadlock. It is empty if it waits for none.
  std::string stands_at(size_t rank) const;

 private:
  enum class Kind : uint8_t { work, mark, wait, meeting };
  struct Operation {
    Kind kind;
    Port port;
    uint32_t id;  // of the mark or meeting
    const char* name;
    double issued, seconds;
  };
  // What runs: the seconds that are left at full speed, and the speed.
  struct Running {
    double left = 0, rate = 0, since = 0, begin = 0;
    uint64_t version = 0;  // of the time of the end
    bool runs = false;
  };
  struct Stream {
    size_t rank;
    std::deque<Operation> queue;
    Running running;
    bool is_blocked = false;  // waits for a mark or for others to come to a meeting
    double came = 0;          // to the meeting
  };
  struct Mark {
    double time = -1;  // < 0: not passed
    uint32_t holders = 0;
    std::vector<StreamId> waiting;
    std::function<void()> notify;
  };
  struct Meeting {
    const char* name;
    Port port;
    double seconds;
    size_t expected;
    std::vector<StreamId> streams;
    Running running;
  };
  // What runs on a rank.
  struct Rank {
    std::array<uint32_t, kNumPorts> users{};
    std::vector<StreamId> running;  // streams with work, or in a meeting that has begun
  };

  void add(StreamId stream, const Operation& operation);
  void proceed(StreamId stream);
  void go_on(StreamId first);
  void pass(MarkId mark);
  void come(StreamId stream, MeetingId meeting);
  void end_work(StreamId stream);
  void end_meeting(MeetingId meeting);
  void use(StreamId stream, Port port, bool begins);
  double rate_of(size_t rank, Port port) const;
  void set_rate(Running& running, double rate, TimedEvent::Kind kind, uint32_t id);
  void set_rates(size_t rank, Port changed, const Meeting* except = nullptr);
  void set_rate_of_meeting(MeetingId id);

  const TimeModel& model_;
  double now_ = 0;
  uint64_t next_version_ = 1;
  EventQueue events_;
  std::vector<Stream> streams_;
  std::vector<Mark> marks_;
  std::vector<Meeting> meetings_;
  std::vector<Rank> ranks_;
  std::vector<uint32_t> free_streams_, free_marks_, free_meetings_;
  std::vector<StreamId> ready_;  // to proceed now
};

}  // namespace ladder
