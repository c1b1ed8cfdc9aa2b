// Runs a program's ranks in one process, on simulated time.
#pragma once

#include <array>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/virtual/devices.h"
#include "common/virtual/fiber.h"
#include "common/virtual/time_model.h"

namespace ladder {

// An Engine is a Simulation of several ranks, each a fiber with a host's clock of its own. A rank
// runs until it must wait for what is queued; then time goes on for all.
class Engine final : public Simulation {
 public:
  Engine(const TimeModel& model, size_t num_ranks);
  ~Engine() override;

  // Calls body(rank) for each rank, and returns when all have returned. If a rank throws, the
  // others are unwound, and run() throws the first exception on. Throws an Error that says what
  // each rank waits for if none can go on (a deadlock).
  void run(const std::function<void(size_t)>& body);

  struct Group {
    std::vector<size_t> ranks;  // of the world, in their order in the group
    std::string name;           // for operations: "tensor"
  };
  using GroupId = uint32_t;
  // Returns the group that `key` stands for. The first call with the key makes it.
  GroupId group(const std::string& key, const std::function<Group()>& make);

  // Queues an operation of the running rank, which is number `rank` of the group. All members queue
  // the same operations in the same order; send and recv are operations of two of them. Throws an
  // Error that names both if they differ.
  void communicate(StreamId stream, GroupId group, size_t rank, Collective collective, size_t peer,
                   size_t bytes);

  // Returns the operations of matrix products that a rank's device has been given so far.
  double product_flops(size_t rank) const { return ranks_[rank].product_flops; }

  // Is called at the end of every operation. Set it before run().
  void set_observer(std::function<void(const DeviceSpan&)> observer) {
    devices_.observer = std::move(observer);
  }

  // Is called with every kernel that a rank queues. Set it before run().
  void set_launch_observer(
      std::function<void(size_t rank, StreamId stream, const KernelCall& call)> observer) {
    launch_observer_ = std::move(observer);
  }

  // Is called again and again while ranks run, on the machine's clock; what it throws ends the run.
  // Set it before run().
  void set_watch(std::function<void()> watch) { watch_ = std::move(watch); }

  Time now() override;
  StreamId add_stream(DeviceType device) override;
  void remove_stream(StreamId stream) noexcept override;
  void launch(StreamId stream, const KernelCall& call) override;
  void copy(StreamId stream, const TensorView& to, const ConstTensorView& from) override;
  void synchronize(StreamId stream) override;
  void synchronize_mark(MarkId mark) override;
  MarkId record(StreamId stream) override;
  void release(MarkId mark) noexcept override { devices_.release(mark); }
  void wait(StreamId stream, MarkId mark) override;
  Time time_of(MarkId mark) override;

 private:
  struct Rank {
    std::unique_ptr<Fiber> fiber;
    double host = 0;  // the host's clock, in seconds
    double product_flops = 0;
  };
  // Operations that have been queued by some of those that take part.
  struct Open {
    Devices::MeetingId meeting;
    size_t missing;
    Collective collective;
    size_t bytes, first;  // `first`: the rank that queued it
  };
  struct GroupState {
    Group group;
    Port port;
    std::array<const char*, kNumCollectives> names{};  // of each collective
    std::map<uint64_t, size_t> num_calls;              // by channel and rank
    std::map<std::pair<uint64_t, size_t>, Open> open;  // by channel and number
  };

  void add_work(StreamId stream, const char* name, Port port, double seconds, double launches);
  double queued(double launches);
  void resume(size_t rank);
  void abandon();
  std::string deadlock() const;
  static std::string open_text(const GroupState& state, uint64_t channel, const Open& open);
  Open open(GroupState& state, Collective collective, size_t from, size_t to, size_t bytes,
            size_t missing);

  const TimeModel& model_;
  Devices devices_;
  std::vector<Rank> ranks_;
  std::vector<DeviceType> device_of_;  // of each stream
  std::map<std::string, GroupId> ids_;
  std::set<std::string> names_;  // of operations
  std::deque<GroupState> groups_;
  std::deque<size_t> ready_;  // ranks that can go on
  std::function<void()> watch_;
  std::function<void(size_t, StreamId, const KernelCall&)> launch_observer_;
  size_t running_ = 0;
  bool is_abandoned_ = false;
};

}  // namespace ladder
