#include "kernels/emulator/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "kernels/emulator/order.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"

namespace ladder::emulator {

StreamOrder order_of_environment() {
  const char* const value = std::getenv("LADDER_EMULATOR_STREAMS");
  if (value == nullptr || std::string_view(value) == "immediate") return StreamOrder::immediate;
  if (std::string_view(value) == "deferred") return StreamOrder::deferred;
  if (std::string_view(value) == "interleaved") return StreamOrder::interleaved;
  throw UserError(concat("LADDER_EMULATOR_STREAMS=", value,
                         ": expected immediate (the default), deferred or interleaved"));
}

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

StreamMark mark_after(const Stream& stream) { return {stream, stream->num_given(), stream->clock}; }

void forget_finished() {
  std::erase_if(scheduler().streams, [](const Stream& s) { return !s->alive && s->tasks.empty(); });
}

size_t free_number() {
  size_t number = 0;
  while (std::ranges::find(scheduler().streams, number, &CUstream_st::number) !=
         scheduler().streams.end()) {
    ++number;
  }
  return number;
}

namespace {

void drop_everything() {
  for (const Stream& stream : scheduler().streams) {
    stream->num_run = stream->num_given();
    stream->tasks.clear();
  }
}

// Runs a task's work, with what observers may ask for while it runs.
void run_work(const Task& task) {
  struct Running {
    explicit Running(const Task& t) {
      running_work = t.id;
      scheduler().running = &t.clock;
    }
    ~Running() {
      running_work = work_before;
      scheduler().running = clock_before;
    }
    WorkId work_before = running_work;
    const WorkClock* clock_before = scheduler().running;
  };
  if (!task.work) return;
  const Running running(task);
  task.work();
}

// The recursion ends, because a task waits only for tasks that were given before it, and a stream
// whose first task waits for another stream has run everything that the other one could wait for.
void advance(CUstream_st& stream, size_t count) {
  while (stream.num_run < count) {
    Task task = std::move(stream.tasks.front());
    for (const StreamMark& mark : task.after) advance(*mark.stream, mark.count);
    run_work(task);
    stream.tasks.pop_front();
    ++stream.num_run;
  }
}

bool may_write(const Task& task, const Range& range) {
  if (!task.work) return false;
  return !task.writes || overlap(*task.writes, range);
}

// Interleaved streams: a random number below `bound`.
std::uint64_t random(std::uint64_t bound) {
  return random_below(bound, random_word(order_seed(), ++scheduler().num_random, 1));
}

bool can_go_on(const CUstream_st& stream) {
  return stream.asleep == 0 && !stream.tasks.empty() &&
         std::ranges::all_of(stream.tasks.front().after, has_passed);
}

// Runs the next task of any stream. Returns false if it has not: one time in four, or if no stream
// can go on.
bool run_any_task() {
  if (scheduler().order != StreamOrder::interleaved || running_work != 0) return false;
  std::vector<Stream> ready;
  std::ranges::copy_if(scheduler().streams, std::back_inserter(ready),
                       [](const Stream& s) { return can_go_on(*s); });
  if (ready.empty() || random(4) == 0) return false;
  CUstream_st& stream = *ready[random(ready.size())];
  advance(stream, stream.num_run + 1);
  return true;
}

// What streams do by themselves at a call of the host.
void interleave() {
  Scheduler& all = scheduler();
  if (all.order != StreamOrder::interleaved || running_work != 0) return;
  for (const Stream& stream : all.streams) stream->asleep -= stream->asleep > 0;
  if (random(4) == 0) all.streams[random(all.streams.size())]->asleep = size_t{1} << random(9);
  if (random(2) == 0) return;
  force([] {
    while (run_any_task()) continue;
  });
}

}  // namespace

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

void force(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    drop_everything();
    throw;
  }
}

void force(const Stream& stream, size_t count) {
  force([&] {
    while (stream->num_run < count) {
      if (!run_any_task()) advance(*stream, std::min(count, stream->num_run + 1));
    }
  });
}

void force_all() {
  // The loop runs over a copy, so that streams which are destroyed meanwhile stay.
  for (const Stream& stream : std::vector(scheduler().streams)) force(stream, stream->num_given());
}

void draw_early_stream() {
  Scheduler& all = scheduler();
  if (all.order != StreamOrder::deferred) return;
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
  for (const StreamMark& mark : task.after) stream->clock.join(mark.clock);
  if (task.work) {
    task.id = static_cast<WorkId>(all.stream_of.size());
    all.stream_of.push_back(static_cast<std::uint32_t>(stream->number));
    stream->clock.join(all.host);
    stream->clock.set(stream->number, task.id);
    task.clock = stream->clock;
  }
  stream->tasks.push_back(std::move(task));
  interleave();
  if (all.order == StreamOrder::immediate || stream == all.early) {
    force(stream, stream->num_given());
  }
}

void order_with_default(const Stream& stream) {
  Scheduler& all = scheduler();
  if (stream != all.standard) {
    if (stream->waits_for_default) add(stream, {{mark_after(all.standard)}});
    return;
  }
  std::vector<StreamMark> marks;
  for (const Stream& other : all.streams) {
    if (other->waits_for_default && other != stream) marks.push_back(mark_after(other));
  }
  if (!marks.empty()) add(stream, {std::move(marks)});
}

}  // namespace ladder::emulator
