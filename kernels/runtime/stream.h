// Streams order the work of a device; events mark places in that order.
#pragma once

#include <string_view>

#include "kernels/runtime/clock.h"
#include "kernels/runtime/tensor.h"

// CUDA's handles (cudaStream_t, cudaEvent_t), without its headers.
struct CUstream_st;
struct CUevent_st;

namespace ladder {

class Event;

// Is told what is queued on a stream, for timelines.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  // The host queued work called `name` between two times. Called by the thread that did.
  virtual void on_range(std::string_view name, Time begin, Time end) = 0;
};

// A queue of kernels. Kernels on one stream run in the order of their calls. On the CPU a kernel
// has run when its call returns; code must not rely on that.
class Stream {
 public:
  // REQUIRES: the device has been selected (device.h).
  explicit Stream(DeviceType device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  DeviceType device() const { return device_; }
  // CUDA's stream, for the bodies of kernels; null on the CPU.
  CUstream_st* native() const { return native_; }
  // Returns when everything queued so far has run. Throws Error where some of it has failed.
  void synchronize();
  // What is queued from now on runs after the mark. Asynchronous. REQUIRES: recorded.
  void wait(const Event& event);

  // Null: nobody is told. The observer must outlive the stream.
  void set_observer(StreamObserver* observer) { observer_ = observer; }
  StreamObserver* observer() const { return observer_; }

 private:
  DeviceType device_;
  CUstream_st* native_ = nullptr;
  StreamObserver* observer_ = nullptr;
};

// A mark in a stream, with the time at which the stream passed it.
class Event {
 public:
  Event() = default;
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Asynchronous. A second call moves the mark. REQUIRES: always streams of the same device.
  void record(Stream& stream);
  // Returns when the stream has passed the mark. REQUIRES: recorded.
  void synchronize();
  // Milliseconds between two marks. REQUIRES: both passed, of the same device.
  static double elapsed_ms(const Event& begin, const Event& end);

 private:
  friend class Stream;
  Time time_;                     // on the CPU
  CUevent_st* native_ = nullptr;  // made by the first record
};

// destination[i] = source[i], between any two devices; the only way from device memory to the host.
// Asynchronous on the stream: synchronize before using the destination on the host.
// REQUIRES: same dtype and shape, no overlap; a CPU's stream copies within host memory only.
void copy(Stream& stream, TensorView destination, ConstTensorView source);

}  // namespace ladder
