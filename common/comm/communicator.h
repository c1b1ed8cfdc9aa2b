// Collective operations between the ranks of one group. The one virtual interface of the project.
//
// Rules for every operation:
// - Counts are elements. Every rank of the group makes the same calls in the same order, with the
//   same dtype and the same number of elements; a rank that does not is an error on all ranks.
// - Sums are taken per element in rank order (((0 + 1) + 2) + ...), whatever the size of the call,
//   so all_reduce has the bits of reduce_scatter followed by all_gather.
// - The call begins when everything queued on `stream` so far has run. Buffers belong to the
//   operation until its Work has been waited for.
// - With `background` it runs on the communicator's own worker thread, behind the background
//   operations before it, while the caller goes on. Otherwise it has run when the call returns; the
//   Work is waited for all the same.
// - Zero elements are a call like any other, which moves nothing; an empty view is an error.
// - Buffers on registered memory (node_memory.h) are reduced in place, without copies.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "common/comm/ledger.h"
#include "kernels/collective.h"
#include "kernels/runtime/stream.h"

namespace ladder {

// A started operation. Must be waited for before it is destroyed, and must not outlive its
// communicator. Move-only.
class [[nodiscard]] Work {
 public:
  struct State;

  Work() = default;  // nothing to wait for
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Work(Work&&) = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // What is queued on `stream` from now on sees the result. Throws what the operation threw.
  void wait(Stream& stream);

 private:
  std::shared_ptr<State> state_;
};

struct CallOptions {
  Purpose purpose = Purpose::control;
  Reduction reduction = Reduction::sum;
  bool background = false;
  // Of staging_elements() elements (staging.h). Empty: the communicator has an area of its own.
  TensorView staging{};
};

class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;

  size_t rank() const { return rank_; }
  size_t size() const { return size_; }
  const Ledger& ledger() const { return ledger_; }

  // Called after every operation but barriers, in the thread that ran it. REQUIRES: none runs now.
  using Time = std::chrono::steady_clock::time_point;
  using Observer = std::function<void(Purpose, Collective, Time begin, Time end)>;
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
  // To and from one rank of the group, which makes the matching call. Does not rely on buffering: a
  // send may last until its recv.
  Work send(Stream& stream, ConstTensorView buffer, size_t to, CallOptions options);
  Work recv(Stream& stream, TensorView buffer, size_t from, CallOptions options);
  // Returns when every rank of the group has called it.
  void barrier();

  // Ends the worker: for destructors, of communicators and of who owns buffers of operations in
  // flight. While an exception unwinds the stack these are given up: peers may never come.
  void stop();
  // The ranks of this group that give the same color, ordered by rank. Collective.
  virtual std::unique_ptr<Communicator> split(size_t color) = 0;

 protected:
  // One operation, as implementations see it. Views are empty where the operation has none.
  struct Request {
    Collective collective;
    TensorView out;
    ConstTensorView in;
    size_t peer = 0;  // root, to or from
    Reduction reduction = Reduction::sum;
    TensorView staging{};
  };

  Communicator(size_t rank, size_t size);
  // Runs the operation to its end in the calling thread. Called by one thread at a time.
  virtual void execute(const Request& request) = 0;
  // Set when operations are given up; whatever waits for peers looks at it and throws Error.
  const std::atomic<bool>& given_up() const { return given_up_; }

 private:
  // Runs the operation in the calling thread; returns the seconds it took.
  double execute_and_observe(const Request& request, Purpose purpose);
  Work run(Stream& stream, const Request& request, size_t payload_elements, CallOptions options);

  size_t rank_, size_;
  Ledger ledger_;
  Observer observer_;
  std::atomic<bool> given_up_ = false;
  std::unique_ptr<class Worker> worker_;  // made by the first background call
};

// A group of one rank: every operation is the identity.
class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, 1) {}
  ~OneRank() override { stop(); }
  std::unique_ptr<Communicator> split(size_t color) override;

 private:
  void execute(const Request& request) override;
};

// True rank and size, but nothing moves: the negative control of tests.
class Unconnected final : public Communicator {
 public:
  Unconnected(size_t rank, size_t size) : Communicator(rank, size) {}
  ~Unconnected() override { stop(); }
  std::unique_ptr<Communicator> split(size_t color) override;

 private:
  void execute(const Request&) override {}
};

}  // namespace ladder
