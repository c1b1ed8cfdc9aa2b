#include "common/virtual/engine.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Unwinds the ranks that wait when another one has failed.
struct Abandoned {};

// Throws a UserError if the clock, which counts nanoseconds, does not go so far.
Time time_at(double seconds) {
  if (!(seconds < 9e9)) {
    throw UserError(
        "a step takes more than 280 years; a number of the cluster or the program must "
        "be wrong");
  }
  return Time(std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds + 0.5)));
}

// The operations between two ranks of a group in one direction have a channel of their own, apart
// from those of all its ranks.
constexpr uint64_t kAll = 0;
uint64_t channel_between(size_t from, size_t to, size_t size) { return 1 + from * size + to; }

bool is_message(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

}  // namespace

Engine::Engine(const TimeModel& model, size_t num_ranks)
    : model_(model), devices_(model, num_ranks), ranks_(num_ranks) {}

Engine::~Engine() = default;

void Engine::run(const std::function<void(size_t)>& body) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].fiber = std::make_unique<Fiber>([this, &body, rank] {
      if (!is_abandoned_) body(rank);
    });
    ready_.push_back(rank);
  }
  size_t num_left = ranks_.size(), num_advances = 0;
  try {
    while (num_left > 0) {
      // What lets time go on takes much less than to look at the clock.
      if (watch_ && (!ready_.empty() || ++num_advances % 64 == 0)) watch_();
      if (ready_.empty()) {
        if (!devices_.advance()) fail(deadlock());
        continue;
      }
      const size_t rank = ready_.front();
      ready_.pop_front();
      resume(rank);
      if (ranks_[rank].fiber->has_ended()) --num_left;
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void Engine::resume(size_t rank) {
  running_ = rank;
  set_current(this);
  try {
    ranks_[rank].fiber->resume();
  } catch (...) {
    set_current(nullptr);
    throw;
  }
  set_current(nullptr);
}

// Lets every rank that waits throw, so that it gives back what it has.
void Engine::abandon() {
  is_abandoned_ = true;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    try {
      if (!ranks_[rank].fiber->has_ended()) resume(rank);
    } catch (const Abandoned&) {       // as it should
    } catch (const std::exception&) {  // a second failure says nothing new
    }
  }
}

std::string Engine::deadlock() const {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> facts;
  for (const GroupState& state : groups_) {
    for (const auto& [key, open] : state.open) facts.push_back(open_text(state, key.first, open));
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::string at = devices_.stands_at(rank);
    if (!at.empty()) facts.push_back(concat("rank ", rank, " stands at ", at));
  }
  std::string text = "a deadlock: no rank can go on";
  for (size_t i = 0; i < std::min(facts.size(), kMostNamed); ++i) text += "; " + facts[i];
  if (facts.size() <= kMostNamed) return text;
  return concat(text, "; and ", facts.size() - kMostNamed, " more");
}

// Says who is missing, as in "rank 1 has not called pipeline recv from rank 0".
std::string Engine::open_text(const GroupState& state, uint64_t channel, const Open& open) {
  const std::vector<size_t>& ranks = state.group.ranks;
  const char* const name = state.names[static_cast<size_t>(open.collective)];
  if (channel == kAll) {
    return concat(open.missing, " of ", ranks.size(), " ranks have not called ", name, ", as rank ",
                  open.first, " has");
  }
  const size_t from = ranks[(channel - 1) / ranks.size()], to = ranks[(channel - 1) % ranks.size()];
  return concat("rank ", open.first == from ? to : from, " has not called the other side of ", name,
                " from rank ", from, " to rank ", to);
}

Time Engine::now() { return time_at(ranks_[running_].host); }

Engine::StreamId Engine::add_stream(DeviceType device) {
  const StreamId stream = devices_.add_stream(running_);
  if (device_of_.size() <= stream) device_of_.resize(stream + 1);
  device_of_[stream] = device;
  return stream;
}

void Engine::remove_stream(StreamId stream) noexcept {
  // While an exception unwinds the stack a fiber must not pause, and the run is about to end.
  if (is_abandoned_ || std::uncaught_exceptions() > 0) return;
  try {
    synchronize(stream);
  } catch (...) {  // the engine has been abandoned in the meantime
    return;
  }
  devices_.remove_stream(stream);
}

// Returns the time at which the host has queued so many more operations for a device.
double Engine::queued(double launches) {
  return ranks_[running_].host += launches * model_.launch_seconds();
}

void Engine::add_work(StreamId stream, const char* name, Port port, double seconds,
                      double launches) {
  if (device_of_[stream] != DeviceType::cpu) {
    devices_.add_work(stream, queued(1), name, port, seconds);
    queued(launches - 1);  // the device begins with the first
    return;
  }
  devices_.add_work(stream, ranks_[running_].host, name, port, seconds);
  synchronize(stream);
}

void Engine::launch(StreamId stream, const KernelCall& call) {
  const DeviceType device = device_of_[stream];
  const Port port = device == model_.device() ? Port::compute : Port::host;
  ranks_[running_].product_flops += call.cost.product_flops;
  if (launch_observer_) launch_observer_(running_, stream, call);
  add_work(stream, call.name, port, model_.kernel_seconds(device, call), model_.launches(call));
}

void Engine::copy(StreamId stream, const TensorView& to, const ConstTensorView& from) {
  const DeviceType device = to.device();
  const Port port = device != from.device()     ? Port::copy
                    : device == model_.device() ? Port::compute
                                                : Port::host;
  add_work(stream, "copy", port, model_.copy_seconds(device, from.device(), from.num_bytes()), 1);
}

Engine::MarkId Engine::record(StreamId stream) {
  return devices_.add_mark(stream, ranks_[running_].host);
}

void Engine::wait(StreamId stream, MarkId mark) {
  devices_.add_wait(stream, ranks_[running_].host, mark);
}

void Engine::synchronize(StreamId stream) {
  if (is_abandoned_ || devices_.is_idle(stream)) return;
  const MarkId mark = record(stream);
  synchronize_mark(mark);
  devices_.release(mark);
}

void Engine::synchronize_mark(MarkId mark) {
  const size_t rank = running_;
  if (!is_abandoned_ && !devices_.has_passed(mark)) {
    devices_.notify(mark, [this, rank] { ready_.push_back(rank); });
    ranks_[rank].fiber->pause();
    if (is_abandoned_) throw Abandoned();
  }
  ranks_[rank].host = std::max(ranks_[rank].host, devices_.time_of(mark));
}

Time Engine::time_of(MarkId mark) { return time_at(devices_.time_of(mark)); }

Engine::GroupId Engine::group(const std::string& key, const std::function<Group()>& make) {
  const auto [found, is_new] = ids_.try_emplace(key, static_cast<GroupId>(groups_.size()));
  if (is_new) {
    GroupState& state = groups_.emplace_back();
    state.group = make();
    state.port = model_.port_between(state.group.ranks);
    for (size_t collective = 0; collective < kNumCollectives; ++collective) {
      // Groups along the same axis share their names.
      const std::string name = concat(state.group.name, state.group.name.empty() ? "" : " ",
                                      name_of(static_cast<Collective>(collective)));
      state.names[collective] = names_.insert(name).first->c_str();
    }
  }
  return found->second;
}

void Engine::communicate(StreamId stream, GroupId id, size_t rank, Collective collective,
                         size_t peer, size_t bytes) {
  if (is_abandoned_) return;
  GroupState& state = groups_[id];
  const size_t size = state.group.ranks.size();
  const bool sends = collective == Collective::send, message = is_message(collective);
  const size_t from = sends ? rank : peer, to = sends ? peer : rank;
  const uint64_t channel = message ? channel_between(from, to, size) : kAll;
  const size_t number = state.num_calls[channel * size + rank]++;
  const size_t members = message ? 2 : size;
  const double issued = device_of_[stream] == DeviceType::cpu ? ranks_[running_].host : queued(1);

  const auto [found, is_new] = state.open.try_emplace({channel, number});
  Open& open = found->second;
  if (is_new) open = this->open(state, collective, from, to, bytes, members);
  const bool same = message || open.collective == collective;
  if (!same || open.bytes != bytes) {
    fail(concat("rank ", running_, " calls ", name_of(collective), " of ", bytes, " bytes, rank ",
                open.first, " calls ", name_of(open.collective), " of ", open.bytes,
                " bytes as call number ", number, " of the group `", state.group.name, "`"));
  }
  devices_.add_meeting(stream, issued, open.meeting);
  if (--open.missing == 0) state.open.erase(found);
}

Engine::Open Engine::open(GroupState& state, Collective collective, size_t from, size_t to,
                          size_t bytes, size_t missing) {
  const std::vector<size_t>& ranks = state.group.ranks;
  const bool message = is_message(collective);
  const double seconds = message ? model_.message_seconds(ranks[from], ranks[to], bytes)
                                 : model_.collective_seconds(collective, ranks, bytes);
  const Port port = message ? model_.port_between({ranks[from], ranks[to]}) : state.port;
  // A message has one name on both sides, and belongs to the one who sends.
  const Collective named = message ? Collective::send : collective;
  const char* const name = state.names[static_cast<size_t>(named)];
  return {devices_.make_meeting(name, port, seconds, missing), missing, collective, bytes,
          running_};
}

}  // namespace ladder
