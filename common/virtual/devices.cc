#include "common/virtual/devices.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns a free index of the vector, which grows if there is none.
template <class T>
uint32_t free_id(std::vector<T>& all, std::vector<uint32_t>& free) {
  if (free.empty()) {
    all.emplace_back();
    return static_cast<uint32_t>(all.size() - 1);
  }
  const uint32_t index = free.back();
  free.pop_back();
  all[index] = T();
  return index;
}

bool communicates(Port port) { return port == Port::inside || port == Port::network; }

}  // namespace

Devices::Devices(const TimeModel& model, size_t num_ranks)
    : model_(model), marks_(1), ranks_(num_ranks) {}  // mark 0 is none

Devices::StreamId Devices::add_stream(size_t rank) {
  const StreamId id = free_id(streams_, free_streams_);
  streams_[id].rank = rank;
  return id;
}

void Devices::remove_stream(StreamId stream) { free_streams_.push_back(stream); }

bool Devices::is_idle(StreamId stream) const { return streams_[stream].queue.empty(); }

void Devices::add(StreamId stream, const Operation& operation) {
  std::deque<Operation>& queue = streams_[stream].queue;
  queue.push_back(operation);
  if (queue.size() == 1)
    events_.add(std::max(now_, operation.issued), TimedEvent::Kind::begin, stream, 0);
}

void Devices::add_work(StreamId stream, double issued, const char* name, Port port,
                       double seconds) {
  add(stream, {Kind::work, port, 0, name, issued, seconds});
}

Devices::MarkId Devices::add_mark(StreamId stream, double issued) {
  const MarkId mark = free_id(marks_, free_marks_);
  marks_[mark].holders = 2;  // the caller and the queue
  add(stream, {Kind::mark, Port::compute, mark, "", issued, 0});
  return mark;
}

void Devices::add_wait(StreamId stream, double issued, MarkId mark) {
  if (has_passed(mark)) return;
  ++marks_[mark].holders;
  add(stream, {Kind::wait, Port::compute, mark, "", issued, 0});
}

void Devices::add_meeting(StreamId stream, double issued, MeetingId meeting) {
  add(stream,
      {Kind::meeting, meetings_[meeting].port, meeting, meetings_[meeting].name, issued, 0});
}

Devices::MeetingId Devices::make_meeting(const char* name, Port port, double seconds,
                                         size_t num_streams) {
  const MeetingId id = free_id(meetings_, free_meetings_);
  Meeting& meeting = meetings_[id];
  meeting.name = name;
  meeting.port = port;
  meeting.seconds = seconds;
  meeting.expected = num_streams;
  return id;
}

void Devices::release(MarkId mark) {
  if (mark == Simulation::kNoMark || --marks_[mark].holders > 0) return;
  free_marks_.push_back(mark);
}

void Devices::notify(MarkId mark, std::function<void()> passed) {
  check(!has_passed(mark), "notify: the mark has been passed");
  marks_[mark].notify = std::move(passed);
}

bool Devices::advance() {
  if (events_.empty()) return false;
  const TimedEvent event = events_.take();
  now_ = std::max(now_, event.time);
  switch (event.kind) {
    case TimedEvent::Kind::begin:
      go_on(event.id);
      break;
    case TimedEvent::Kind::end_of_work:
      if (streams_[event.id].running.version == event.version) end_work(event.id);
      break;
    case TimedEvent::Kind::end_of_meeting:
      if (meetings_[event.id].running.version == event.version) end_meeting(event.id);
      break;
  }
  return true;
}

// Lets a stream proceed, and then all that it has set free.
void Devices::go_on(StreamId first) {
  ready_.push_back(first);
  while (!ready_.empty()) {
    const StreamId stream = ready_.back();
    ready_.pop_back();
    proceed(stream);
  }
}

// Runs what the stream has queued until something takes time.
void Devices::proceed(StreamId id) {
  while (true) {
    Stream& stream = streams_[id];
    if (stream.queue.empty() || stream.running.runs || stream.is_blocked) return;
    const Operation operation = stream.queue.front();
    if (operation.issued > now_)
      return events_.add(operation.issued, TimedEvent::Kind::begin, id, 0);
    switch (operation.kind) {
      case Kind::mark:
        stream.queue.pop_front();
        pass(operation.id);
        break;
      case Kind::wait:
        if (!has_passed(operation.id)) {
          stream.is_blocked = true;
          marks_[operation.id].waiting.push_back(id);
          return;
        }
        stream.queue.pop_front();
        release(operation.id);
        break;
      case Kind::meeting:
        return come(id, operation.id);
      case Kind::work:
        stream.running = {.left = operation.seconds, .since = now_, .begin = now_, .runs = true};
        use(id, operation.port, true);
        return set_rates(stream.rank, operation.port);
    }
  }
}

void Devices::pass(MarkId id) {
  Mark& mark = marks_[id];
  mark.time = now_;
  for (StreamId waiting : mark.waiting) {
    streams_[waiting].is_blocked = false;
    ready_.push_back(waiting);
  }
  mark.waiting.clear();
  if (mark.notify) std::exchange(mark.notify, nullptr)();
  release(id);
}

void Devices::come(StreamId id, MeetingId meeting_id) {
  Meeting& meeting = meetings_[meeting_id];
  streams_[id].is_blocked = true;
  streams_[id].came = now_;
  meeting.streams.push_back(id);
  if (meeting.streams.size() < meeting.expected) return;
  meeting.running = {.left = meeting.seconds, .since = now_, .begin = now_, .runs = true};
  for (StreamId stream : meeting.streams) use(stream, meeting.port, true);
  for (StreamId stream : meeting.streams) set_rates(rank_of(stream), meeting.port, &meeting);
  set_rate_of_meeting(meeting_id);
}

void Devices::end_work(StreamId id) {
  Stream& stream = streams_[id];
  const Operation operation = stream.queue.front();
  stream.queue.pop_front();
  stream.running.runs = false;
  stream.running.version = 0;
  use(id, operation.port, false);
  set_rates(stream.rank, operation.port);
  if (observer) {
    const double begin = stream.running.begin;
    observer({stream.rank, operation.name, operation.port, operation.issued, begin, begin, now_});
  }
  go_on(id);
}

void Devices::end_meeting(MeetingId id) {
  const Meeting meeting = std::exchange(meetings_[id], Meeting());
  free_meetings_.push_back(id);
  for (StreamId stream : meeting.streams) use(stream, meeting.port, false);
  for (StreamId at : meeting.streams) {
    Stream& stream = streams_[at];
    const double issued = stream.queue.front().issued;
    stream.queue.pop_front();
    stream.is_blocked = false;
    if (observer) {
      observer({stream.rank, meeting.name, meeting.port, issued, stream.came, meeting.running.begin,
                now_});
    }
  }
  for (StreamId stream : meeting.streams) set_rates(rank_of(stream), meeting.port);
  for (StreamId stream : meeting.streams) go_on(stream);
}

// A stream begins or ends to use a port of its rank.
void Devices::use(StreamId id, Port port, bool begins) {
  Rank& rank = ranks_[rank_of(id)];
  uint32_t& users = rank.users[static_cast<size_t>(port)];
  if (begins) {
    ++users;
    rank.running.push_back(id);
  } else {
    --users;
    std::erase(rank.running, id);
  }
}

double Devices::rate_of(size_t number, Port port) const {
  const auto& users = ranks_[number].users;
  const double share = 1.0 / users[static_cast<size_t>(port)];
  if (port != Port::compute) return share;
  double taken = 0;
  for (Port way : {Port::inside, Port::network}) {
    if (users[static_cast<size_t>(way)] > 0) taken = std::max(taken, model_.compute_taken(way));
  }
  return share * (1 - taken);
}

void Devices::set_rate(Running& running, double rate, TimedEvent::Kind kind, uint32_t id) {
  if (rate == running.rate) return;
  running.left = std::max(0.0, running.left - running.rate * (now_ - running.since));
  running.since = now_;
  running.rate = rate;
  events_.add(now_ + running.left / rate, kind, id, running.version = next_version_++);
}

// Sets the speed of all that runs on a rank and depends on the port, whose users have changed.
void Devices::set_rates(size_t number, Port changed, const Meeting* except) {
  for (const StreamId id : ranks_[number].running) {
    const Operation& operation = streams_[id].queue.front();
    const bool slows_compute = communicates(changed) && operation.port == Port::compute;
    if (operation.port != changed && !slows_compute) continue;
    if (operation.kind == Kind::work) {
      const double rate = rate_of(number, operation.port);
      set_rate(streams_[id].running, rate, TimedEvent::Kind::end_of_work, id);
    } else if (&meetings_[operation.id] != except) {
      set_rate_of_meeting(operation.id);
    }
  }
}

// A meeting is as fast as its slowest rank.
void Devices::set_rate_of_meeting(MeetingId id) {
  Meeting& meeting = meetings_[id];
  double rate = 1;
  for (StreamId stream : meeting.streams) {
    const auto& users = ranks_[streams_[stream].rank].users;
    rate = std::min(rate, 1.0 / std::max(1U, users[static_cast<size_t>(meeting.port)]));
  }
  set_rate(meeting.running, rate, TimedEvent::Kind::end_of_meeting, id);
}

std::string Devices::stands_at(size_t rank) const {
  std::string text;
  for (const Stream& stream : streams_) {
    if (stream.rank != rank || stream.queue.empty()) continue;
    const Operation& operation = stream.queue.front();
    if (operation.kind != Kind::meeting)
      continue;  // what waits for a mark waits for another stream
    text += concat(text.empty() ? "" : ", ", operation.name);
  }
  return text;
}

}  // namespace ladder
