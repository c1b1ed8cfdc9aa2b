// How the data of one group of ranks travel: what a Communicator (communicator.h) stands on. The
// one virtual interface of the project.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "common/comm/call_options.h"
#include "kernels/runtime/stream.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One operation, its arguments checked. Views that it does not have are empty.
struct Request {
  Collective collective;
  TensorView out;
  ConstTensorView in;
  size_t peer = 0;  // root, to or from
  Reduction reduction = Reduction::sum;
};

class Transport {
 public:
  // `device`: where buffers may lie beside the host. `queues`: operations on it are given to
  // enqueue(), all others to execute().
  Transport(size_t rank, size_t size, DeviceType device = DeviceType::cpu, bool queues = false)
      : rank_(rank), size_(size), device_(device), queues_(queues) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  size_t rank() const { return rank_; }
  size_t size() const { return size_; }
  DeviceType device() const { return device_; }
  bool queues() const { return queues_; }

  // Runs the operation to its end in the calling thread. One at a time, but for a recv and a send.
  // Returns the bytes that this rank has moved (Traffic::moved_bytes), counted where they move.
  virtual size_t execute(const Request& request) = 0;
  // Queues an operation on device memory. Asynchronous. REQUIRES: queues().
  virtual void enqueue(const Request& request, Stream& queue);
  // Throws unless all ranks of the group make the same call. Collective.
  virtual void compare(const Request&) {}

  // The ranks of this group that give the same color, ordered by rank. Collective.
  virtual std::unique_ptr<Transport> split(size_t color) = 0;
  // The same for a group along an axis of the grid.
  virtual std::unique_ptr<Transport> split_axis(Axis, size_t color) { return split(color); }

  // Ends what is under way with an Error, and whatever comes later: peers may never come.
  virtual void give_up() { given_up_ = true; }
  // Whatever waits for peers looks at it and throws Error.
  const std::atomic<bool>& given_up() const { return given_up_; }

  // Sums of messages go through `area` where it is large enough (staging.h).
  void use_staging(TensorView area) { staging_area_ = area; }
  TensorView staging_area() const { return staging_area_; }

 private:
  size_t rank_, size_;
  DeviceType device_;
  bool queues_;
  TensorView staging_area_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace ladder
