// Collective operations between the ranks of one group.
//
// Rules for every operation:
// - Counts are elements. Every rank of the group makes the same calls in the same order, with the
//   same dtype and the same number of elements; a rank that does not is an error on all ranks.
// - Sums are taken per element in rank order (((0 + 1) + 2) + ...), whatever the size of the call,
//   so all_reduce has the bits of reduce_scatter followed by all_gather. Those of bf16 and fp16 are
//   taken in fp32 and rounded once, at the end (NCCL may round more often).
// - The call begins when everything queued on `stream` so far has run. Buffers belong to the
//   operation until its Work has been waited for.
// - With `background` it runs on the communicator's own worker thread, behind the background
//   operations before it, while the caller goes on. Otherwise it has run when the call returns; the
//   Work is waited for all the same.
// - Zero elements are a call like any other, which moves nothing; an empty view is an error.
// - Buffers on registered memory (node_memory.h, nccl_memory.h) are reduced without copies.
// - A communicator for a device takes buffers there and, for control data, on the host; all of one
//   call in the same place. NCCL's operations are queued on a stream of the communicator's own in
//   the order of their calls; the host waits for none, and NCCL sums in an order of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/comm/call_options.h"
#include "common/comm/ledger.h"
#include "common/comm/transport.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/work.h"

namespace ladder {

class DeviceQueue;
class Worker;

class Communicator final {
 public:
  explicit Communicator(std::unique_ptr<Transport> transport);
  // Ends what is in flight; while an exception unwinds the stack it is given up.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  size_t rank() const { return transport_->rank(); }
  size_t size() const { return transport_->size(); }
  DeviceType device() const { return transport_->device(); }  // where buffers lie beside the host
  // Waits for operations queued on a device, whose times are known only then, of axes too.
  const Ledger& ledger() const;
  // The ledger's entries, where collectives have the bytes that all ranks of their group moved:
  // they do not share them out equally. REQUIRES: nothing is in flight. Collective over all groups.
  TrafficEntries group_entries();

  // Called after every operation but barriers, in the thread that ran it; for one queued on a
  // device when its times become known. REQUIRES: none runs now.
  using Observer = std::function<void(const TrafficKey&, Time begin, Time end)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // buffer[i] = sum (or maximum) over ranks r of buffer_r[i]. In place.
  Work all_reduce(Stream& stream, TensorView buffer, CallOptions options);
  // shard[i] = sum over ranks r of buffer_r[rank() * n + i] for i < n = shard's elements.
  // REQUIRES: buffer has size() * n elements. In place when shard is the buffer's own slice; the
  // rest of the buffer keeps its values.
  Work reduce_scatter(Stream& stream, TensorView shard, ConstTensorView buffer,
                      CallOptions options);
  // buffer[r * n + i] = shard_r[i]. REQUIRES: buffer has size() * n elements. In place when shard
  // is the buffer's own slice.
  Work all_gather(Stream& stream, TensorView buffer, ConstTensorView shard, CallOptions options);
  // buffer[i] = buffer_root[i].
  Work broadcast(Stream& stream, TensorView buffer, size_t root, CallOptions options);
  // On root: buffer[i] = sum over ranks r of buffer_r[i]; elsewhere the buffer keeps its values.
  Work reduce(Stream& stream, TensorView buffer, size_t root, CallOptions options);
  // out[r * n + i] = in_r[rank() * n + i], n = elements / size(). REQUIRES: no overlap.
  Work all_to_all(Stream& stream, TensorView out, ConstTensorView in, CallOptions options);
  // To and from one rank of the group, which makes the matching call. A send may last until then;
  // a recv waits for no send in the background, but for those before it in a device's queue.
  Work send(Stream& stream, ConstTensorView buffer, size_t to, CallOptions options);
  Work recv(Stream& stream, TensorView buffer, size_t from, CallOptions options);
  // Returns when every rank of the group has called it.
  void barrier();

  // From here on all operations, along axes too, count as control: evaluation is no part of a step.
  void count_as_control(bool on) { account_->counts_as_control_ = on; }

  // From here on sums of messages go through `area` where it is large enough (staging.h).
  void use_staging(TensorView area) { transport_->use_staging(area); }
  TensorView staging_area() const { return transport_->staging_area(); }

  // Ends what is in flight with an Error. An error of this rank is about to end the program: peers
  // may never come, and device memory cannot be freed while an operation on it waits for them.
  void give_up();

  // The ranks of this group that give the same color, ordered by rank. Collective.
  std::unique_ptr<Communicator> split(size_t color);
  // The same along an axis of the grid: its operations count in this one's ledger, under that axis,
  // and go to its observer. REQUIRES: destroyed before this one, which is no such group itself.
  std::unique_ptr<Communicator> split_axis(Axis axis, size_t color);

 private:
  Work run(Stream& stream, const Request& request, size_t payload_elements, CallOptions options);
  Work run_in_thread(Stream& stream, const Request& request, CallOptions options);
  Work run_on_queue(Stream& stream, const Request& request, size_t payload_bytes, Purpose purpose);
  Traffic execute_and_observe(const Request& request, Purpose purpose);
  TrafficKey key_of(const Request& request, Purpose purpose) const;

  Axis axis_ = Axis::world;
  Communicator* account_ = this;     // whose ledger and observer this one uses
  std::vector<Communicator*> axes_;  // groups that use this one's
  Ledger ledger_;
  Observer observer_;
  bool counts_as_control_ = false;
  std::unique_ptr<Worker> worker_;      // made by the first background call
  std::unique_ptr<DeviceQueue> queue_;  // if operations are queued
  std::unique_ptr<Transport> transport_;
};

}  // namespace ladder
