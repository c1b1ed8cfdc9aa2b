#include "common/comm/communicator.h"

#include <exception>
#include <set>
#include <utility>

#include "common/comm/compressed.h"
#include "common/comm/device_queue.h"
#include "common/comm/one_rank.h"
#include "common/comm/worker.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/range.h"

namespace ladder {

struct Communicator::Task {
  Request request;
  CompressedSum* compressed = nullptr;
};

Communicator::Communicator(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)) {
  if (transport_->queues() && size() > 1) queue_ = std::make_unique<DeviceQueue>(device());
}

Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0) give_up();
  worker_.reset();
  // The ledger outlives this group, so it must get the times of what the group still has queued.
  try {
    if (queue_ && account_ != this && !transport_->given_up()) queue_->resolve();
  } catch (...) {
    // The device has failed, or a peer: whoever uses the device next is told. What is queued there
    // must not keep its memory from being freed.
    give_up();
  }
  std::erase(account_->axes_, this);
}

const Ledger& Communicator::ledger() const {
  for (const Communicator* group : account_->axes_) {
    if (group->queue_) group->queue_->resolve();
  }
  if (account_->queue_) account_->queue_->resolve();
  return account_->ledger_;
}

TrafficEntries Communicator::group_entries() {
  TrafficEntries entries = ledger().entries();
  std::vector<Communicator*> groups = {this};
  groups.insert(groups.end(), axes_.begin(), axes_.end());
  std::set<Axis> summed;
  for (Communicator* const group : groups) {
    if (group->size() == 1 || !summed.insert(group->axis_).second) continue;
    // Two places for every key on this axis, since a rank may have keys that another has not.
    double moved[kNumPurposes][kNumCollectives][2] = {};
    const auto sums_of = [&](const TrafficKey& key) -> double(&)[2] {
      return moved[static_cast<size_t>(key.purpose)][static_cast<size_t>(key.collective)];
    };
    const auto is_summed = [&](const TrafficKey& key) {
      return key.axis == group->axis_ && key.collective != Collective::send;
    };
    for (const auto& [key, traffic] : entries) {
      if (!is_summed(key)) continue;
      sums_of(key)[0] = static_cast<double>(traffic.moved.bytes);
      sums_of(key)[1] = static_cast<double>(traffic.moved.between);
    }
    const TensorView view(moved, DType::fp64, DeviceType::cpu, {sizeof moved / sizeof(double)});
    group->transport_->execute({Collective::all_reduce, view, view});
    for (auto& [key, traffic] : entries) {
      if (!is_summed(key)) continue;
      const auto& [bytes, between] = sums_of(key);
      traffic.moved = {static_cast<size_t>(bytes), static_cast<size_t>(between)};
    }
  }
  return entries;
}

std::unique_ptr<Communicator> Communicator::split(size_t color) {
  return std::make_unique<Communicator>(transport_->split(color));
}

std::unique_ptr<Communicator> Communicator::split_axis(Axis axis, size_t color) {
  check(account_ == this, "split_axis: of a group along an axis");
  auto group = std::make_unique<Communicator>(transport_->split_axis(axis, color));
  group->axis_ = axis;
  group->account_ = this;
  axes_.push_back(group.get());
  return group;
}

void Communicator::give_up() {
  transport_->give_up();
  for (Communicator* group : axes_) group->give_up();
}

TrafficKey Communicator::key_of(const Request& request, Purpose purpose) const {
  return {purpose, request.collective, axis_};
}

// Runs the request in the calling thread. Returns the time it took and what it moved.
Traffic Communicator::execute_and_observe(const Task& task, Purpose purpose) {
  const auto& [request, compressed] = task;
  const Range range(name_of(purpose), name_of(request.collective));
  const Time begin = Clock::now();
  const Moved moved =
      compressed != nullptr ? compressed->execute(*transport_) : transport_->execute(request);
  const Time end = Clock::now();
  if (account_->observer_) account_->observer_(key_of(request, purpose), begin, end);
  return {.busy_seconds = seconds_between(begin, end),
          .moved = moved,
          .encoded = compressed != nullptr};
}

Work Communicator::run(Stream& stream, const Request& request, size_t payload_elements,
                       CallOptions options) {
  const DType dtype = request.out.empty() ? request.in.dtype() : request.out.dtype();
  return run_task(stream, {request}, payload_elements * size_of(dtype), options);
}

Work Communicator::run_task(Stream& stream, const Task& task, size_t payload, CallOptions options) {
  const Request& request = task.request;
  const ConstTensorView view = request.out.empty() ? request.in : ConstTensorView(request.out);
  if (view.device() != DeviceType::cpu && view.device() != device()) {
    fail(concat(name_of(request.collective), ": the buffer is on ", name_of(view.device()),
                ", this communicator is for ", name_of(device())));
  }
  check(view.device() == DeviceType::cpu || stream.device() == view.device(),
        "a collective: its stream is of another device than its buffers");
  if (account_->counts_as_control_) options.purpose = Purpose::control;
  Traffic call = {.calls = 1, .payload_bytes = payload, .at_most = options.by_data};
  if (const PairCounts& counts = request.counts; !counts.are_equal()) {
    const size_t elements = options.by_data ? counts.total() : counts.total_to_others();
    call.group_sent_bytes = elements * size_of(request.in.dtype());
  }
  account_->ledger_.add(key_of(request, options.purpose), call);
  if (transport_->queues() && view.device() == device()) {
    return run_on_queue(stream, task, payload, options.purpose);
  }
  return run_in_thread(stream, task, options);
}

Work Communicator::run_on_queue(Stream& stream, const Task& task, size_t payload_bytes,
                                Purpose purpose) {
  const Request& request = task.request;
  check(!transport_->given_up(), "given up after an error");
  const Range range(name_of(purpose), name_of(request.collective));
  if (worker_) worker_->drain();  // enqueue may compare calls on the host
  const TrafficKey key = key_of(request, purpose);
  size_t wire = static_cast<size_t>(wire_bytes(request.collective, size(), payload_bytes));
  if (!request.counts.are_equal()) {
    wire = payload_bytes - request.counts.of(rank(), rank()) * size_of(request.in.dtype());
  }
  account_->ledger_.add(key, {.moved = {wire}, .by_formula = true});
  const auto report = [account = account_, key](const auto& times) {
    account->ledger_.add(
        key, {.busy_seconds = times.busy_seconds, .exposed_seconds = times.exposed_seconds});
    if (account->observer_) account->observer_(key, times.begin, times.end);
  };
  // A group of one rank mostly has nothing to do. If it has, nobody waits for it.
  if (size() == 1 && task.compressed == nullptr && OneRank::has_nothing_to_do(request)) {
    return Work();
  }
  if (!queue_) queue_ = std::make_unique<DeviceQueue>(device(), StreamPriority::normal);
  return queue_->start(
      stream,
      [&](Stream& queue) {
        if (task.compressed != nullptr) return task.compressed->enqueue(*transport_, queue);
        transport_->enqueue(task.request, queue);
      },
      report);
}

Work Communicator::run_in_thread(Stream& stream, const Task& task, CallOptions options) {
  const Request& request = task.request;
  const Purpose purpose = options.purpose;
  const auto record = [account = account_, key = key_of(request, purpose)](const Traffic& traffic) {
    account->ledger_.add(key, traffic);
  };
  if (!options.background || size() == 1) {
    stream.synchronize();
    double waited = 0;  // asking for the time costs a tenth of a small call
    if (worker_) {
      const auto begin = Clock::now();
      request.collective == Collective::recv ? worker_->drain_others() : worker_->drain();
      waited = seconds_since(begin);
    }
    Traffic traffic = execute_and_observe(task, purpose);
    traffic.exposed_seconds = waited + traffic.busy_seconds;
    record(traffic);
    return Work();
  }
  // The worker waits for the inputs, so that the caller need not.
  const auto ready = std::make_shared<Event>();
  ready->record(stream);
  if (!worker_) worker_ = std::make_unique<Worker>(device());
  return worker_->start(
      request.collective == Collective::send ? Worker::Kind::send : Worker::Kind::other,
      [this, task, ready, purpose, record] {
        check(!transport_->given_up(), "given up after an error");
        ready->synchronize();
        record(execute_and_observe(task, purpose));
      },
      [record](double waited) { record({.exposed_seconds = waited}); });
}

namespace {

void check_present(const char* operation, const ConstTensorView& view) {
  if (view.empty()) fail(concat(operation, ": no buffer"));
}

void check_parts(const char* operation, const ConstTensorView& whole, const ConstTensorView& part,
                 size_t size) {
  check_present(operation, whole);
  check_present(operation, part);
  if (whole.device() != part.device()) {
    fail(concat(operation, ": one buffer is on ", name_of(whole.device()), ", the other on ",
                name_of(part.device())));
  }
  if (whole.dtype() != part.dtype() || whole.num_elements() != size * part.num_elements()) {
    fail(concat(operation, ": ", size, " shards of ", part.num_elements(), " ",
                name_of(part.dtype()), " elements do not make a buffer of ", whole.num_elements(),
                " ", name_of(whole.dtype())));
  }
}

}  // namespace

Work Communicator::all_reduce(Stream& stream, TensorView buffer, CallOptions options) {
  check_present("all_reduce", buffer);
  return run(stream, {Collective::all_reduce, buffer, buffer, 0, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::all_reduce(Stream& stream, CompressedSum& sum, CallOptions options) {
  const TensorView buffer = sum.buffer();
  check_present("all_reduce", buffer);
  const Task task = {{Collective::all_reduce, buffer, buffer}, &sum};
  return run_task(stream, task,
                  CompressedSum::payload_bytes(sum.codec(), buffer.num_elements(), size()),
                  options);
}

Work Communicator::reduce_scatter(Stream& stream, TensorView shard, ConstTensorView buffer,
                                  CallOptions options) {
  check_parts("reduce_scatter", buffer, shard, size());
  return run(stream, {Collective::reduce_scatter, shard, buffer, 0, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::all_gather(Stream& stream, TensorView buffer, ConstTensorView shard,
                              CallOptions options) {
  check_parts("all_gather", buffer, shard, size());
  return run(stream, {Collective::all_gather, buffer, shard}, buffer.num_elements(), options);
}

Work Communicator::broadcast(Stream& stream, TensorView buffer, size_t root, CallOptions options) {
  check_present("broadcast", buffer);
  check(root < size(), "broadcast: no such root");
  return run(stream, {Collective::broadcast, buffer, buffer, root}, buffer.num_elements(), options);
}

Work Communicator::reduce(Stream& stream, TensorView buffer, size_t root, CallOptions options) {
  check_present("reduce", buffer);
  check(root < size(), "reduce: no such root");
  return run(stream, {Collective::reduce, buffer, buffer, root, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::all_to_all(Stream& stream, TensorView out, ConstTensorView in,
                              CallOptions options) {
  check_parts("all_to_all", in, out, 1);
  check(in.num_elements() % size() == 0, "all_to_all: elements do not divide among the ranks");
  return all_to_all(stream, out, in, PairCounts(size(), in.num_elements() / size()), options);
}

Work Communicator::all_to_all(Stream& stream, TensorView out, ConstTensorView in,
                              const PairCounts& counts, CallOptions options) {
  check_present("all_to_all", out);
  check_present("all_to_all", in);
  check(out.dtype() == in.dtype() && out.device() == in.device(),
        "all_to_all: buffers of two dtypes, or on two devices");
  check(counts.num_ranks() == size(), "all_to_all: counts of another number of ranks");
  check(in.num_elements() == counts.sent(rank()) && out.num_elements() == counts.received(rank()),
        "all_to_all: the buffers do not have the elements that are counted");
  Request request = {Collective::all_to_all, out, in};
  request.counts = counts;
  return run(stream, request, in.num_elements(), options);
}

Work Communicator::send(Stream& stream, ConstTensorView buffer, size_t to, CallOptions options) {
  check_present("send", buffer);
  check(to < size() && to != rank(), "send: no such peer");
  return run(stream, {Collective::send, {}, buffer, to}, buffer.num_elements(), options);
}

Work Communicator::recv(Stream& stream, TensorView buffer, size_t from, CallOptions options) {
  check_present("recv", buffer);
  check(from < size() && from != rank(), "recv: no such peer");
  return run(stream, {Collective::recv, buffer, {}, from}, buffer.num_elements(), options);
}

void Communicator::barrier() {
  if (worker_) worker_->drain();
  const Request request = {Collective::barrier, {}, {}};
  account_->ledger_.add(key_of(request, Purpose::control), {.calls = 1});
  transport_->execute(request);
}

}  // namespace ladder
