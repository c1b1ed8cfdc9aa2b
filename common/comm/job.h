// The ranks of a run: one process, or as many as mpirun has started.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/communicator.h"
#include "common/comm/mpi_transport.h"
#include "common/comm/nccl_init.h"
#include "common/comm/nccl_memory.h"
#include "common/comm/watchdog.h"

namespace ladder {

// How data on a device travel between ranks.
enum class DevicePath {
  automatic,  // NCCL if every rank has a device of its own, else staged
  nccl,
  staged  // copied to host memory, moved between the hosts, copied to the other device
};

struct ConnectOptions {
  DeviceType device = DeviceType::cpu;
  DevicePath device_path = DevicePath::automatic;
  bool shared_memory = true;  // whether ranks of one machine share memory, for data on the host
  bool numa = true;  // whether ranks keep to the CPUs beside their GPUs where several share them
  MpiOptions mpi;
  NcclOptions nccl;
};

// Returns how many of the `free` bytes of a GPU tensors may take, so that cuBLAS and NCCL find room
// for what they allocate later: NCCL for each communicator, of which there are none if the ranks do
// not use it. It is never 0.
size_t memory_beside_libraries(size_t free, size_t num_communicators);

// A Job joins the ranks that mpirun started, chooses how they communicate, and ends all of them
// when one fails. A program has one.
class Job {
 public:
  // Returns true if Open MPI's mpirun has started this process, be it the only rank, or another
  // launcher several (launcher.h).
  static bool is_launched();

  // Joins the other ranks, if there are any. From then on CUDA loads all kernels at its first call,
  // unless the environment says otherwise (CUDA_MODULE_LOADING). If a launcher has started another
  // number of processes than MPI finds, each would train for itself: then one of them says so, and
  // all end with status 2. REQUIRES: it is called once, before all that follows, and before the
  // first call of CUDA. `wait_limit` is MpiWorld's.
  void join(double wait_limit = 0);
  // Returns null if there is one rank.
  MpiWorld* world() { return world_ ? &*world_ : nullptr; }

  size_t rank() const { return world_ ? world_->rank() : 0; }
  size_t size() const { return world_ ? world_->size() : 1; }
  size_t node_size() const { return world_ ? world_->node_size() : 1; }

  // Returns the machine of each rank, as the number of the first rank there.
  std::vector<size_t> machine_of() const;

  // Throws UserError on all ranks if a rank's settings are not those of rank 0. The message names
  // the first setting that differs, both values and both ranks. Collective.
  void require_same(const std::vector<Setting>& settings) const {
    if (world_) world_->require_same(settings);
  }
  // Returns true if all ranks have the same text. Collective.
  bool all_same(const std::string& text) const { return !world_ || world_->all_same(text); }
  // Returns the values of rank 0, then those of rank 1, and so on. Collective. REQUIRES: all ranks
  // give equally many.
  std::vector<uint64_t> all_gather(const std::vector<uint64_t>& own) const;
  // Selects this rank's device and makes the communicator of all ranks. Nothing may use the device
  // before. Throws UserError if the devices cannot communicate in the way that `options` asks for.
  // Collective.
  void connect(const ConnectOptions& options);

  // REQUIRES: connect().
  Communicator& communicator() { return *communicator_; }
  // Returns the source of device memory that collectives use without copies, or null if there is
  // none.
  MemorySource* registered() { return registered_; }
  // Makes symmetric windows of what has been allocated from registered(), if --nccl-windows asks
  // for them and they can be (nccl_memory.h). Collective.
  void make_windows();
  // Returns true if ranks reach host data in each other's memory, so that they send no messages.
  bool shares_memory() const { return shares_memory_; }
  // Returns the machine of each rank as a number, if each machine sums its own ranks before
  // anything leaves it. Empty if that is not so, if this is not known, or on one machine.
  const std::vector<size_t>& machines_that_sum() const { return machines_that_sum_; }
  // Says in words how ranks communicate; empty if there is one rank.
  const std::string& communication() const { return communication_; }
  // Returns how many bytes the device had free for this rank's tensors when connect() returned: its
  // share, if ranks share the device. On a GPU it leaves room for cuBLAS, and for NCCL with
  // `num_groups` communicators besides that of all ranks. 0 if the device does not say.
  size_t free_device_memory(size_t num_groups) const;

  // Says at once what went wrong, as fail() does, before this rank gives up what it has begun. That
  // may wait for a device, and so for ranks that never come: if fail() is not called within half a
  // minute, all ranks are ended with status 1. Does nothing if mpirun did not start this process.
  void announce(const std::string& message);
  // Prints `message` on standard error, unless announce() has been called or another rank of this
  // machine has already said what went wrong, and ends all ranks with `status`. Returns only if
  // mpirun did not start this process.
  void fail(const std::string& message, int status);
  // Does the same for a mistake of the user's, which most often all ranks find at the same time:
  // rank 0 prints it for all. Another rank prints it, with its name, if rank 0 has not ended the
  // run shortly after.
  void refuse(const std::string& mistake);
  // Returns the name of every rank, such as "rank 3 on hostname".
  std::vector<std::string> names() const {
    return world_ ? world_->names() : std::vector<std::string>{"rank 0"};
  }
  // Returns "rank 3 on hostname: " for messages, or an empty text if there is one rank.
  std::string prefix() const { return world_ ? world_->name() + ": " : std::string(); }

 private:
  // Prints the message unless another rank of this machine has failed before. Returns whether this
  // rank is the first.
  bool say_first(const std::string& message);

  // How the ranks of this machine share its devices.
  struct Sharing {
    size_t num_devices = 1;      // devices that the ranks of this machine have selected
    size_t ranks_on_device = 1;  // ranks that have selected the same device as this one
    bool anywhere = false;       // whether ranks share a device on any machine of the run
  };
  Sharing find_sharing(DeviceType device) const;
  // Keeps this rank, and those beside it, on the CPUs beside its GPU, and says so.
  void keep_beside_device(const ConnectOptions& options);
  // Makes the transport for device memory from the one for host memory, `host`.
  std::unique_ptr<Transport> connect_devices(const ConnectOptions& options, const Sharing& sharing,
                                             std::unique_ptr<Transport> host);

  std::optional<MpiWorld> world_;
  std::optional<NodeMemory> node_memory_;
  std::optional<NcclMemory> nccl_memory_;
  MemorySource* registered_ = nullptr;
  bool shares_memory_ = true;
  std::vector<size_t> machines_that_sum_;
  std::string communication_;
  DeviceType device_ = DeviceType::cpu;
  size_t free_memory_ = 0;
  std::unique_ptr<Communicator> communicator_;
  std::optional<bool> announced_;  // whether this rank was the first to fail
  std::optional<Watchdog> watchdog_;
};

}  // namespace ladder
