// The interface that a Communicator (communicator.h) uses to move data between the ranks of a
// group. Each way to communicate implements it: one rank, MPI, NCCL, staged.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "common/comm/call_options.h"
#include "common/comm/pair_counts.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/stream.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One operation. Its arguments have been checked. A view that the operation does not have is empty.
struct Request {
  Collective collective;
  TensorView out;
  ConstTensorView in;
  size_t peer = 0;  // the root, or the other rank of a send or recv
  Reduction reduction = Reduction::sum;
  PairCounts counts = {};  // of an all_to_all
};

class Transport {
 public:
  // Buffers may lie on the host or on `device`. If `queues` is true, operations on device memory go
  // to enqueue(); all others go to execute().
  Transport(size_t rank, size_t size, DeviceType device = DeviceType::cpu, bool queues = false)
      : rank_(rank), size_(size), device_(device), queues_(queues) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  size_t rank() const { return rank_; }
  size_t size() const { return size_; }
  DeviceType device() const { return device_; }
  bool queues() const { return queues_; }

  // Runs the operation to its end in the calling thread. Returns what this rank has moved. One
  // operation runs at a time, except that a recv may run while a send does.
  virtual Moved execute(const Request& request) = 0;
  // Queues an operation on device memory and returns before it has run. REQUIRES: queues().
  virtual void enqueue(const Request&, Stream&) { fail("nothing is queued on a device here"); }
  // Throws unless all ranks of the group make the same call. Collective.
  virtual void compare(const Request&) {}

  // Makes a group of those ranks of this group that give the same color, in rank order. Collective.
  virtual std::unique_ptr<Transport> split(size_t color) = 0;
  // Does the same for a group along an axis of the grid.
  virtual std::unique_ptr<Transport> split_axis(Axis, size_t color) { return split(color); }

  // Ends operations under way, and all later ones, with an Error: peers may never come.
  virtual void give_up() { given_up_ = true; }
  // True after give_up(). Every wait for peers looks at it and throws an Error once it is true.
  const std::atomic<bool>& given_up() const { return given_up_; }

  // From now on, sums that need messages go through `area` if it is large enough (staging.h).
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
