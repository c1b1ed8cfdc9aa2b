// Streams order the work of a device; events mark places in that order.
#pragma once

#include <chrono>

#include "kernels/runtime/tensor.h"

namespace ladder {

// A queue of kernels. Kernels on one stream run in the order of their calls. On the CPU a kernel
// has run when its call returns; code must not rely on that.
class Stream {
 public:
  explicit Stream(DeviceType device) : device_(device) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  DeviceType device() const { return device_; }
  // Returns when everything queued so far has run.
  void synchronize() {}

 private:
  DeviceType device_;
};

// A mark in a stream, with the time at which the stream passed it.
class Event {
 public:
  // Asynchronous. A second call moves the mark.
  void record(Stream&) { time_ = std::chrono::steady_clock::now(); }
  // Returns when the stream has passed the mark. REQUIRES: recorded.
  void synchronize() {}
  // Milliseconds between two marks. REQUIRES: both passed.
  static double elapsed_ms(const Event& begin, const Event& end) {
    return std::chrono::duration<double, std::milli>(end.time_ - begin.time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

// destination[i] = source[i], between any two devices; the only way from device memory to the host.
// Asynchronous on the stream: synchronize before using the destination on the host.
// REQUIRES: same dtype and shape, no overlap.
void copy(Stream& stream, TensorView destination, ConstTensorView source);

}  // namespace ladder
