// Streams and events: CUDA's calls, in terms of streams.h.
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "kernels/emulator/host_state.h"
#include "kernels/emulator/streams.h"

namespace {

// A call of cudaEventRecord. `passed` is known once the stream has passed the mark.
struct Record {
  ladder::emulator::StreamMark mark;
  std::chrono::steady_clock::time_point passed;
};

}  // namespace

struct CUevent_st {
  bool timed;
  std::shared_ptr<Record> last;  // null before the first record
};

namespace ladder::emulator {
namespace {

// The events that were created and not destroyed.
struct Events {
  std::mutex mutex;
  std::unordered_set<cudaEvent_t> alive;
};

Events& events() {
  static Events* const all = new Events;
  return *all;
}

// Sets `last` to the event's last record, or to null. Returns false if there is no such event.
bool find_record(cudaEvent_t event, std::shared_ptr<Record>& last) {
  const std::lock_guard lock(events().mutex);
  if (!events().alive.contains(event)) return false;
  last = event->last;
  return true;
}

// Calls body(record) if the event is alive and has been recorded, and returns its status.
template <class Body>
cudaError_t with_record(cudaEvent_t event, Body body) {
  std::shared_ptr<Record> last;
  if (!find_record(event, last)) return note(cudaErrorInvalidResourceHandle);
  return last == nullptr ? cudaSuccess : note(body(*last));
}

// Returns whether the mark has been passed, and brings its stream a step closer to it.
cudaError_t query(const StreamMark& mark) {
  if (has_passed(mark)) {
    host_has_seen(mark);
    return cudaSuccess;
  }
  run_towards(mark);
  return cudaErrorNotReady;
}

}  // namespace
}  // namespace ladder::emulator

using namespace ladder::emulator;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return note(cudaErrorInvalidValue);
  *stream = make_stream(flags == cudaStreamDefault);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  if (lowest == nullptr || highest == nullptr) return note(cudaErrorInvalidValue);
  *lowest = 0;
  *highest = -5;  // as on an H100
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return note(destroy_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  run_to(mark_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  return note(query(mark_of(stream)));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  if (flags != 0) return note(cudaErrorInvalidValue);
  return with_record(event, [stream](const Record& last) {
    give_wait(stream, last.mark);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
    return note(cudaErrorInvalidValue);
  }
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, nullptr};
  const std::lock_guard lock(events().mutex);
  events().alive.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(events().mutex);
  if (events().alive.erase(event) == 0) return note(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto record = std::make_shared<Record>();
  std::shared_ptr<Record> before;
  if (!is_stream(stream) || !find_record(event, before)) {
    return note(cudaErrorInvalidResourceHandle);
  }
  const auto pass = [record] { record->passed = std::chrono::steady_clock::now(); };
  record->mark = give(stream, pass, Range());
  const std::lock_guard lock(events().mutex);
  event->last = record;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_record(event, [](const Record& last) {
    run_to(last.mark);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_record(event, [](const Record& last) { return query(last.mark); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (milliseconds == nullptr) return note(cudaErrorInvalidValue);
  std::shared_ptr<Record> first, last;
  if (!find_record(begin, first) || !find_record(end, last) || first == nullptr ||
      last == nullptr || !begin->timed || !end->timed) {
    return note(cudaErrorInvalidResourceHandle);
  }
  if (!has_passed(first->mark) || !has_passed(last->mark)) return note(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last->passed - first->passed).count();
  return cudaSuccess;
}
