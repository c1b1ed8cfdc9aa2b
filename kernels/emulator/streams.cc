#include "kernels/emulator/streams.h"

#include <algorithm>
#include <utility>

#include "kernels/emulator/host_state.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/scheduler.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

Stream require_stream(cudaStream_t handle) {
  Stream stream = find(handle);
  check(stream != nullptr, "not a live stream of the emulator");
  return stream;
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
  scheduler().num_draws = scheduler().waits_left = scheduler().num_random = 0;
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
  StreamMark mark = mark_after(stream);
  mark.work = mark.clock.last(stream->number);
  return mark;
}

void give_wait(cudaStream_t handle, const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = require_stream(handle);
  stream->clock.join(mark.clock);
  if (!has_passed(mark)) add(stream, {{mark}});
}

StreamMark mark_of(cudaStream_t handle) {
  const std::lock_guard lock(scheduler().mutex);
  return mark_after(require_stream(handle));
}

bool has_passed(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  return mark.stream->num_run >= mark.count;
}

void host_has_seen(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  scheduler().host.join(mark.clock);
  tell_observers([](Observer& observer) { observer.host_waited(); });
}

void run_to(const StreamMark& mark) {
  const std::lock_guard lock(scheduler().mutex);
  force(mark.stream, mark.count);
  host_has_seen(mark);
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
  for (const Stream& stream : scheduler().streams) scheduler().host.join(stream->clock);
  tell_observers([](Observer& observer) { observer.host_waited(); });
  forget_finished();
  draw_early_stream();
}

size_t stream_of(WorkId work) {
  const std::lock_guard lock(scheduler().mutex);
  return scheduler().stream_of[work];
}

bool comes_before_running(WorkId earlier) {
  const std::lock_guard lock(scheduler().mutex);
  return scheduler().running->covers(scheduler().stream_of[earlier], earlier);
}

bool host_has_waited_for(WorkId work) {
  const std::lock_guard lock(scheduler().mutex);
  return scheduler().host.covers(scheduler().stream_of[work], work);
}

bool host_has_waited_for_all() {
  const std::lock_guard lock(scheduler().mutex);
  return std::ranges::all_of(scheduler().streams, [](const Stream& stream) {
    return stream->clock.is_before(scheduler().host);
  });
}

cudaStream_t make_stream(bool waits_for_default_stream) {
  const std::lock_guard lock(scheduler().mutex);
  const size_t number = free_number();
  return scheduler()
      .streams.emplace_back(std::make_shared<CUstream_st>(waits_for_default_stream, number))
      .get();
}

bool destroy_stream(cudaStream_t handle) {
  const std::lock_guard lock(scheduler().mutex);
  const Stream stream = find(handle);
  if (handle == nullptr || stream == nullptr) return false;
  stream->alive = false;
  stream->asleep = 0;
  if (scheduler().early == stream) scheduler().early = nullptr;
  forget_finished();
  return true;
}

}  // namespace ladder::emulator
