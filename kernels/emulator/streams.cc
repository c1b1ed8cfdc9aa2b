#include "kernels/emulator/streams.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/emulator/host_state.h"
#include "kernels/runtime/check.h"

// A task of a stream: it waits for the marks, or runs the work.
struct Task {
  std::vector<ladder::emulator::StreamMark> after;
  std::function<void()> work;
  std::optional<ladder::emulator::Range> writes = {};  // unknown if empty
};

struct CUstream_st {
  bool waits_for_default;       // false: cudaStreamNonBlocking
  bool alive = true;            // not destroyed
  std::deque<Task> tasks = {};  // that have not run
  size_t num_run = 0;

  size_t num_given() const { return num_run + tasks.size(); }
};

namespace ladder::emulator {
namespace {

using Stream = std::shared_ptr<CUstream_st>;

StreamOrder order_of_environment() {
  const char* const value = std::getenv("LADDER_EMULATOR_STREAMS");
  if (value == nullptr || std::string_view(value) == "immediate") return StreamOrder::immediate;
  if (std::string_view(value) == "deferred") return StreamOrder::deferred;
  throw UserError(
      concat("LADDER_EMULATOR_STREAMS=", value, ": expected immediate (the default) or deferred"));
}

// The streams of the process, and the order in which they run. One lock protects everything. Work
// runs while it is held, and may take it again.
struct Scheduler {
  StreamOrder order = order_of_environment();
  Stream standard = std::make_shared<CUstream_st>(true);  // the default stream
  std::vector<Stream> streams = {standard};               // alive, or with tasks
  Stream early;                                           // or none
  std::uint64_t num_draws = 0;                            // of the early stream
  std::uint64_t waits_left = 0;                           // of the host, until the next draw
  std::recursive_mutex mutex;
};

Scheduler& scheduler() {
  static auto* const all = new Scheduler;  // never destroyed: static objects may use streams
  return *all;
}

Stream find(cudaStream_t handle) {
  Scheduler& all = scheduler();
  if (handle == nullptr) return all.standard;
  const auto found = std::ranges::find(all.streams, handle, &Stream::get);
  return found == all.streams.end() || !(*found)->alive ? nullptr : *found;
}

Stream require_stream(cudaStream_t handle) {
  Stream stream = find(handle);
  check(stream != nullptr, "not a live stream of the emulator");
  return stream;
}

void forget_finished() {
  std::erase_if(scheduler().streams, [](const Stream& s) { return !s->alive && s->tasks.empty(); });
}

void drop_everything() {
  for (const Stream& stream : scheduler().streams) {
    stream->num_run = stream->num_given();
    stream->tasks.clear();
  }
}

// The recursion ends, because a task waits only for tasks that were given before it, and a stream
// whose first task waits for another stream has run everything that the other one could wait for.
void advance(CUstream_st& stream, size_t count) {
  while (stream.num_run < count) {
    Task task = std::move(stream.tasks.front());
    for (const StreamMark& mark : task.after) advance(*mark.stream, mark.count);
    if (task.work) task.work();
    stream.tasks.pop_front();
    ++stream.num_run;
  }
}

bool may_write(const Task& task, const Range& range) {
  if (!task.work) return false;
  return !task.writes || overlap(*task.writes, range);
}

// Runs the tasks up to the last one that may write the range, and everything that later ones wait
// for.
void advance_for(CUstream_st& stream, const Range& range) {
  const auto last = std::find_if(stream.tasks.rbegin(), stream.tasks.rend(),
                                 [&](const Task& task) { return may_write(task, range); });
  const auto rest = static_cast<size_t>(last - stream.tasks.rbegin());
  advance(stream, stream.num_given() - rest);
  // Tasks are counted by number, because work that runs here may come back to this stream.
  for (size_t at = stream.num_run; at < stream.num_given(); at = std::max(at + 1, stream.num_run)) {
    const std::vector<StreamMark> after = stream.tasks[at - stream.num_run].after;
    for (const StreamMark& mark : after) advance(*mark.stream, mark.count);
  }
}

// Calls body(), which advances streams for the host. If it throws, all work that has not run is
// dropped.
template <class Body>
void force(Body body) {
  try {
    body();
  } catch (...) {
    drop_everything();
    throw;
  }
}

void force(const Stream& stream, size_t count) {
  force([&] { advance(*stream, count); });
}

void force_all() {
  // The loop runs over a copy, so that streams which are destroyed meanwhile stay.
  for (const Stream& stream : std::vector(scheduler().streams)) force(stream, stream->num_given());
}

// Draws the early stream after a wait of the host, and for how many waits it stays. Half of the
// time there is none. Some mistakes show only if work is late for one wait, others for hundreds.
void draw_early_stream() {
  Scheduler& all = scheduler();
  if (all.order == StreamOrder::immediate) return;
  if (all.waits_left > 0) return static_cast<void>(--all.waits_left);
  std::uint64_t x = ++all.num_draws * 0x9e3779b97f4a7c15;  // the mixing of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  all.waits_left = std::uint64_t{1} << (x >> 32) % 9;
  all.early = x % 2 == 0 ? nullptr : all.streams[x / 2 % all.streams.size()];
  if (all.early != nullptr) force(all.early, all.early->num_given());
}

void add(const Stream& stream, Task task) {
  Scheduler& all = scheduler();
  stream->tasks.push_back(std::move(task));
  if (all.order == StreamOrder::immediate || stream == all.early) {
    force(stream, stream->num_given());
  }
}

// The default stream and those that are not cudaStreamNonBlocking wait for each other.
void order_with_default(const Stream& stream) {
  Scheduler& all = scheduler();
  if (stream != all.standard) {
    if (stream->waits_for_default) add(stream, {{{all.standard, all.standard->num_given()}}, {}});
    return;
  }
  std::vector<StreamMark> marks;
  for (const Stream& other : all.streams) {
    if (other->waits_for_default && other != stream) marks.push_back({other, other->num_given()});
  }
  if (!marks.empty()) add(stream, {std::move(marks), {}});
}

}  // namespace

bool overlap(const Range& a, const Range& b) {
  const auto *x = static_cast<const char*>(a.begin), *y = static_cast<const char*>(b.begin);
  return x < y + b.bytes && y < x + a.bytes;
}

StreamOrder stream_order() { return scheduler().order; }

void set_stream_order(StreamOrder order) {
  const std::lock_guard lock(scheduler().mutex);
  force_all();
  scheduler().order = order;
  scheduler().early = nullptr;
  scheduler().num_draws = scheduler().waits_left = 0;
}

bool is_stream(cudaStream_t stream) {
  const std::lock_guard lock(scheduler().mutex);
  return find(stream) != nullptr;
}

StreamMark give(cudaStream_t handle, std::function<void()> work, std::optional<Range> writes) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = require_stream(handle);
  order_with_default(stream);
  add(stream, {{}, std::move(work), writes});
  return {stream, stream->num_given()};
}

void give_wait(cudaStream_t handle, const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = require_stream(handle);
  if (!has_passed(mark)) add(stream, {{mark}, {}});
}

StreamMark mark_of(cudaStream_t handle) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = require_stream(handle);
  return {stream, stream->num_given()};
}

bool has_passed(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  return mark.stream->num_run >= mark.count;
}

void run_to(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  force(mark.stream, mark.count);
  forget_finished();
  draw_early_stream();
}

void run_for(cudaStream_t handle, const Range& read) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = require_stream(handle);
  force([&] { advance_for(*stream, read); });
}

void run_towards(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  force(mark.stream, std::min(mark.count, mark.stream->num_run + 1));
  if (!has_passed(mark)) return;
  forget_finished();  // the host has waited as run_to() does
  draw_early_stream();
}

void run_all_streams() {
  const std::lock_guard lock(scheduler().mutex);
  force_all();
  forget_finished();
  draw_early_stream();
}

cudaStream_t make_stream(bool waits_for_default_stream) {
  const std::lock_guard lock(scheduler().mutex);
  return scheduler()
      .streams.emplace_back(std::make_shared<CUstream_st>(waits_for_default_stream))
      .get();
}

bool destroy_stream(cudaStream_t handle) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = find(handle);
  if (handle == nullptr || stream == nullptr) return false;
  stream->alive = false;
  if (scheduler().early == stream) scheduler().early = nullptr;
  forget_finished();
  return true;
}

}  // namespace ladder::emulator
