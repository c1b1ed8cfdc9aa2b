// Streams and events. All work is done when it is given, so they only keep order books.
#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "kernels/emulator/host_state.h"

struct CUstream_st {};

struct CUevent_st {
  bool timed;
  std::optional<std::chrono::steady_clock::time_point> recorded;
};

namespace ladder::emulator {
namespace {

// The handles that are alive.
struct Handles {
  std::mutex mutex;
  std::unordered_set<cudaStream_t> streams;
  std::unordered_set<cudaEvent_t> events;
};

Handles& handles() {
  static Handles* const all = new Handles;
  return *all;
}

// Calls f() and returns its status if the event is alive, under the lock.
template <class F>
cudaError_t with_event(cudaEvent_t event, F f) {
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  return note(all.events.contains(event) ? f() : cudaErrorInvalidResourceHandle);
}

}  // namespace

bool is_stream(cudaStream_t stream) {
  if (stream == nullptr) return true;
  Handles& all = handles();
  const std::lock_guard lock(all.mutex);
  return all.streams.contains(stream);
}

}  // namespace ladder::emulator

using namespace ladder::emulator;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return note(cudaErrorInvalidValue);
  *stream = new CUstream_st;
  const std::lock_guard lock(handles().mutex);
  handles().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(handles().mutex);
  if (handles().streams.erase(stream) == 0) return note(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return note(is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  if (flags != 0) return note(cudaErrorInvalidValue);
  return with_event(event, [] { return cudaSuccess; });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
    return note(cudaErrorInvalidValue);
  }
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, {}};
  const std::lock_guard lock(handles().mutex);
  handles().events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(handles().mutex);
  if (handles().events.erase(event) == 0) return note(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  return with_event(event, [event] {
    event->recorded = std::chrono::steady_clock::now();
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(event, [] { return cudaSuccess; });
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (milliseconds == nullptr) return note(cudaErrorInvalidValue);
  return with_event(begin, [=] {
    if (!handles().events.contains(end)) return cudaErrorInvalidResourceHandle;
    for (const cudaEvent_t event : {begin, end}) {
      if (!event->timed || !event->recorded) return cudaErrorInvalidResourceHandle;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(*end->recorded - *begin->recorded).count();
    return cudaSuccess;
  });
}
