// Collective operations between the ranks of one group. These rules hold for every operation:
// - Counts are elements. Every rank of the group makes the same calls in the same order, with the
//   same dtype and the same number of elements; a rank that does not is an error on all ranks.
// - Each element is summed in rank order, (((0 + 1) + 2) + ...), whatever the size of the call, so
//   all_reduce has the same bits as reduce_scatter followed by all_gather. Sums of bf16 and fp16
//   are taken in fp32 and rounded once, at the end. If ranks are on several machines and share
//   memory there, each machine first sums its own ranks in this way; then these sums are added, in
//   the order of the machines, and rounded once more. (NCCL sums in its own order and may round
//   more often.)
// - The operation begins when everything queued on `stream` so far has run. The buffers belong to
//   the operation until its Work has been waited for.
// - With `background` the operation runs on the communicator's worker thread, after the background
//   operations called before it, while the caller goes on. Without it the operation has run when
//   the call returns, but its Work must still be waited for.
// - A call with zero elements moves nothing but is compared and counted like any other. An empty
//   view (one without memory) is an error.
// - Buffers in registered memory (node_memory.h, nccl_memory.h) are reduced without copies. Between
//   machines they also send fewer bytes; there all ranks register the buffers of a call, or none.
// - A communicator for a device takes buffers on that device, and on the host for control data. All
//   buffers of one call are in the same place. NCCL's operations are queued on a stream of the
//   communicator, in the order of the calls, and the host waits for none of them.
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

class CompressedSum;
class DeviceQueue;
class Worker;

class Communicator final {
 public:
  explicit Communicator(std::unique_ptr<Transport> transport);
  // Waits for the operations in flight. While an exception unwinds the stack it calls give_up().
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  size_t rank() const { return transport_->rank(); }
  size_t size() const { return transport_->size(); }
  // The device of the buffers that are not on the host.
  DeviceType device() const { return transport_->device(); }
  // Returns this rank's ledger. It first waits until the operations that are queued on a device,
  // along axes too, have ended, because their times are known only then.
  const Ledger& ledger() const;
  // Returns the ledger's entries with one change: a collective has the bytes that all ranks of its
  // group moved together, since ranks do not move equally many. REQUIRES: nothing is in flight.
  // Collective over this group and its groups along axes.
  TrafficEntries group_entries();

  // The observer is called after every operation but barriers, in the thread that ran it. For an
  // operation queued on a device it is called when the times become known. REQUIRES: no operation
  // is running.
  using Observer = std::function<void(const TrafficKey&, Time begin, Time end)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // In the formulas buffer_r, shard_r and in_r are the arguments that rank r gives.

  // buffer[i] = sum (or maximum) over ranks r of buffer_r[i]. It works in place.
  Work all_reduce(Stream& stream, TensorView buffer, CallOptions options);
  // Does the same with fewer bytes and some error: sum.buffer() = the sum of what all ranks have
  // encoded (compressed.h). The ledger counts it as an all_reduce of the encoded bytes. `sum`
  // belongs to the operation until its Work has been waited for.
  Work all_reduce(Stream& stream, CompressedSum& sum, CallOptions options);
  // shard[i] = sum over ranks r of buffer_r[rank() * n + i], where n is the shard's elements.
  // REQUIRES: buffer has size() * n elements. `shard` may be slice rank() of `buffer`; the rest of
  // the buffer keeps its values.
  Work reduce_scatter(Stream& stream, TensorView shard, ConstTensorView buffer,
                      CallOptions options);
  // buffer[r * n + i] = shard_r[i], where n is the shard's elements. REQUIRES: buffer has
  // size() * n elements. `shard` may be slice rank() of `buffer`.
  Work all_gather(Stream& stream, TensorView buffer, ConstTensorView shard, CallOptions options);
  // buffer[i] = buffer_root[i].
  Work broadcast(Stream& stream, TensorView buffer, size_t root, CallOptions options);
  // On root, buffer[i] = sum over ranks r of buffer_r[i]. On other ranks it keeps its values.
  Work reduce(Stream& stream, TensorView buffer, size_t root, CallOptions options);
  // out[r * n + i] = in_r[rank() * n + i], where n = elements / size(). REQUIRES: `out` and `in` do
  // not overlap, and size() divides their elements.
  Work all_to_all(Stream& stream, TensorView out, ConstTensorView in, CallOptions options);
  // Does the same with another number of elements for each pair of ranks (pair_counts.h): with
  // n = counts.of(r, rank()), out[counts.begin_received(r, rank()) + i] =
  // in_r[counts.begin_sent(r, rank()) + i] for all i < n. The ledger counts the bytes of `in`.
  // REQUIRES: all ranks give the same counts, `out` has counts.received(rank()) elements, `in` has
  // counts.sent(rank()), and they do not overlap.
  Work all_to_all(Stream& stream, TensorView out, ConstTensorView in, const PairCounts& counts,
                  CallOptions options);
  // Moves a buffer between two ranks of the group, which make matching calls. A send may last until
  // its recv is called. A recv does not wait for this rank's sends in the background, but on a
  // device's queue it runs after the sends before it.
  Work send(Stream& stream, ConstTensorView buffer, size_t to, CallOptions options);
  Work recv(Stream& stream, TensorView buffer, size_t from, CallOptions options);
  // Returns when every rank of the group has called it.
  void barrier();

  // While `on`, the ledger counts all operations as control, also those along axes: evaluation is
  // not part of a step.
  void count_as_control(bool on) { account_->counts_as_control_ = on; }

  // From now on, sums that need messages go through `area` if it is large enough (staging.h).
  void use_staging(TensorView area) { transport_->use_staging(area); }
  TensorView staging_area() const { return transport_->staging_area(); }

  // Ends the operations in flight with an Error. It is called when an error of this rank is about
  // to end the program: peers may never come, and device memory cannot be freed while an operation
  // on it waits for them.
  void give_up();

  // Makes a group of those ranks of this group that give the same color, in rank order. Collective.
  std::unique_ptr<Communicator> split(size_t color);
  // Does the same for an axis of the grid. The new group counts in this one's ledger, under `axis`,
  // and reports to its observer. REQUIRES: it is destroyed before this one, and this one is not
  // itself along an axis.
  std::unique_ptr<Communicator> split_axis(Axis axis, size_t color);

 private:
  // A request, which is for the transport, or for `compressed` if it is not null.
  struct Task;

  Work run(Stream& stream, const Request& request, size_t payload_elements, CallOptions options);
  Work run_task(Stream& stream, const Task& task, size_t payload_bytes, CallOptions options);
  Work run_in_thread(Stream& stream, const Task& task, CallOptions options);
  Work run_on_queue(Stream& stream, const Task& task, size_t payload_bytes, Purpose purpose);
  Traffic execute_and_observe(const Task& task, Purpose purpose);
  TrafficKey key_of(const Request& request, Purpose purpose) const;

  Axis axis_ = Axis::world;
  Communicator* account_ = this;     // the one whose ledger and observer this group uses
  std::vector<Communicator*> axes_;  // the groups that use this one's ledger and observer
  Ledger ledger_;
  Observer observer_;
  bool counts_as_control_ = false;
  std::unique_ptr<Worker> worker_;      // made by the first background call
  std::unique_ptr<DeviceQueue> queue_;  // null unless the transport queues operations
  std::unique_ptr<Transport> transport_;
};

}  // namespace ladder
