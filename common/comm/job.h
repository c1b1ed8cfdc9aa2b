// The ranks of a run: one process, or as many as mpirun has started.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/mpi_transport.h"
#include "common/comm/nccl_memory.h"

namespace ladder {

// How data that lie on a device travel between ranks.
enum class DevicePath {
  automatic,  // NCCL where every rank has a device of its own, else staged
  nccl,
  staged  // through host memory
};

struct ConnectOptions {
  DeviceType device = DeviceType::cpu;
  DevicePath device_path = DevicePath::automatic;
  bool shared_memory = true;  // between ranks of a machine, for data on the host
  MpiOptions mpi;
};

class Job {
 public:
  // Ranks that mpirun (Open MPI's or another with PMI) has started beside this one, itself
  // included; 1 if it was started alone.
  static size_t num_launched();

  // Joins the other ranks, if there are any. REQUIRES: called once, before all that follows.
  void join();

  size_t rank() const { return world_ ? world_->rank() : 0; }
  size_t size() const { return world_ ? world_->size() : 1; }
  size_t node_size() const { return world_ ? world_->node_size() : 1; }

  // UserError on all ranks where a rank has other settings than rank 0, with the first of them that
  // differs, both values and both ranks. Collective.
  void require_same(const std::vector<Setting>& settings) const {
    if (world_) world_->require_same(settings);
  }
  // Have all ranks the same text? Collective.
  bool all_same(const std::string& text) const { return !world_ || world_->all_same(text); }
  // The numbers of rank 0, of rank 1, ... REQUIRES: all have as many. Collective.
  std::vector<uint64_t> all_gather(const std::vector<uint64_t>& own) const {
    return world_ ? world_->all_gather(own) : own;
  }
  // Selects this rank's device, which must come before whatever else is done with it, and makes the
  // group of all ranks. UserError: a transport that the devices cannot have. Collective.
  void connect(const ConnectOptions& options);

  // REQUIRES: connect().
  Communicator& communicator() { return *communicator_; }
  // Memory of the device that collectives work on without copies; null where there is none.
  MemorySource* registered() { return registered_; }
  // Do ranks reach data on the host in each other's memory, and send no messages?
  bool shares_memory() const { return shares_memory_; }
  // How ranks communicate, in words; "" where there is one rank.
  const std::string& communication() const { return communication_; }
  // Bytes that the device had free for this rank alone when the ranks had connected; 0 if it does
  // not say.
  size_t free_device_memory() const { return free_device_memory_; }

  // Says `message` on standard error, unless another rank has said what went wrong first, and ends
  // all ranks with `status`. Returns only where this process is the only one.
  void fail(const std::string& message, int status);
  // The same for a mistake of the user's, which all ranks mostly find at the same time: rank 0 says
  // it for all. Another rank says it, with its name, where rank 0 has not found it shortly after.
  void refuse(const std::string& mistake);
  // "rank 3 on hostname", of all ranks.
  std::vector<std::string> names() const {
    return world_ ? world_->names() : std::vector<std::string>{"rank 0"};
  }
  // "rank 3 on hostname: " where there are several, for messages; else "".
  std::string prefix() const { return world_ ? world_->name() + ": " : std::string(); }

 private:
  // Ranks of this machine and the devices that they have selected.
  struct Sharing {
    size_t num_devices = 1;
    size_t ranks_on_device = 1;  // on this rank's
    bool anywhere = false;       // do ranks share a device on any machine?
  };
  Sharing find_sharing(DeviceType device) const;
  // From the transport between hosts, that for their devices.
  std::unique_ptr<Transport> connect_devices(const ConnectOptions& options, const Sharing& sharing,
                                             std::unique_ptr<Transport> host);

  std::optional<MpiWorld> world_;
  std::optional<NodeMemory> node_memory_;
  std::optional<NcclMemory> nccl_memory_;
  MemorySource* registered_ = nullptr;
  bool shares_memory_ = true;
  std::string communication_;
  size_t free_device_memory_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace ladder
