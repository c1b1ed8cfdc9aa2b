// Streams order the work of a device; events mark points in that order.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/simulation.h"
#include "kernels/runtime/tensor.h"

// CUDA's handles (cudaStream_t, cudaEvent_t), without its headers.
struct CUstream_st;
struct CUevent_st;

namespace ladder {

class Event;

// An observer of the work that is queued on a stream, for timelines.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  // Called when the host is about to queue a pass, by the thread that will (Range::pass).
  virtual void on_pass() {}
  // Called when the host has queued work called `name`, between two times, by the thread that did.
  virtual void on_range(std::string_view name, Time begin, Time end) = 0;
};

// Among the kernels that wait for free multiprocessors, those of streams of high priority come
// first.
enum class StreamPriority { normal, high };

// A queue of kernels. Kernels on one stream run in the order of their calls. On the CPU a kernel
// has run when its call returns, but code must not rely on that.
class Stream {
 public:
  // REQUIRES: the device has been selected (device.h).
  explicit Stream(DeviceType device, StreamPriority priority = StreamPriority::normal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  DeviceType device() const { return device_; }
  // Returns CUDA's stream, for the bodies of kernels. It is null on the CPU.
  CUstream_st* native() const { return native_; }
  // Returns the simulation that this stream belongs to, or null, and the stream's number there.
  Simulation* simulation() const { return simulation_; }
  Simulation::StreamId simulated() const { return simulated_; }
  // Returns when everything queued so far has run. Throws an Error if some of it has failed, and
  // what a WaitCheck throws (device_wait.h).
  void synchronize();
  // Makes all work that is queued from now on wait for the event's mark. Asynchronous. REQUIRES:
  // the event has been recorded.
  void wait(const Event& event);

  // Keeps something that belongs to this stream, such as a library's state, until the stream ends.
  // It is destroyed just before CUDA's stream is. REQUIRES: one thread at a time calls it.
  void keep(std::shared_ptr<void> thing) { kept_.push_back(std::move(thing)); }

  // Sets the observer, which must outlive the stream or be replaced. It may be null.
  void set_observer(StreamObserver* observer) { observer_ = observer; }
  StreamObserver* observer() const { return observer_; }

 private:
  DeviceType device_;
  CUstream_st* native_ = nullptr;
  Simulation* simulation_ = Simulation::current();
  Simulation::StreamId simulated_ = 0;
  StreamObserver* observer_ = nullptr;
  std::vector<std::shared_ptr<void>> kept_;
};

// A mark in a stream, with the time at which the stream passed it.
class Event {
 public:
  Event() = default;
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Puts the mark after everything queued on the stream so far. A second call moves it.
  // Asynchronous. REQUIRES: all streams that an event is recorded on are of the same device.
  void record(Stream& stream);
  // Returns when the stream has passed the mark. Throws what a WaitCheck throws (device_wait.h).
  // REQUIRES: the event has been recorded.
  void synchronize();
  // Returns whether the stream has passed the mark. REQUIRES: the event has been recorded, and
  // there is no simulation.
  bool has_passed() const;
  // Returns the milliseconds between two marks. REQUIRES: both have been passed, on the same
  // device.
  static double elapsed_ms(const Event& begin, const Event& end);

 private:
  friend class Stream;
  Time time_;                     // the time of the mark, on the CPU
  CUevent_st* native_ = nullptr;  // CUDA's event, made by the first record()
  // The mark in a simulation.
  Simulation* simulation_ = nullptr;
  Simulation::MarkId mark_ = Simulation::kNoMark;
};

// Sets destination[i] = source[i]. It copies within a device, and between a device and the host;
// there is no other way from device memory to the host. Asynchronous on the stream: synchronize
// before using the destination on the host. REQUIRES: the same dtype and shape, and no overlap; a
// stream of the CPU copies only within host memory.
void copy(Stream& stream, TensorView destination, ConstTensorView source);

}  // namespace ladder
