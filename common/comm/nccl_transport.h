// The transport between ranks that each have a GPU of their own: NCCL.
#pragma once

#include <memory>
#include <string>

#include "common/comm/nccl_init.h"
#include "common/comm/nccl_memory.h"
#include "common/comm/transport.h"

namespace ladder {

// Operations on device memory are queued on the device and carried out by NCCL. Operations on host
// memory (losses, norms) go to a transport between the hosts of the same ranks.
class NcclTransport final : public Transport {
 public:
  // Makes the group of the ranks of `host`, which it owns from now on. `memory` has the registered
  // buffers; it may be null, and must outlive the transport. If `compare` is true, each call is
  // first compared with the peers' calls over `host`, for which the host waits. Collective.
  // REQUIRES: each rank has selected a GPU of its own (kernels/runtime/device.h).
  static std::unique_ptr<Transport> make(std::unique_ptr<Transport> host, DeviceType device,
                                         NcclMemory* memory, bool compare,
                                         const NcclOptions& options = {});
  ~NcclTransport() override;

  std::unique_ptr<Transport> split(size_t color) override;
  // Gives up all groups of this process: NCCL's kernels of one group may wait for those of another,
  // so the communicators are aborted together.
  void give_up() override;

  // Returns NCCL's version, such as "2.28.9".
  static std::string version();

 private:
  // Owns `nccl`, also if an exception is thrown.
  NcclTransport(std::unique_ptr<Transport> host, ncclComm* nccl, DeviceType device,
                NcclMemory* memory, bool compare, const NcclOptions& options);
  Moved execute(const Request& request) override { return host_->execute(request); }
  void enqueue(const Request& request, Stream& queue) override;

  // All objects of this class in this process.
  struct Live;
  static Live& live();
  // Throws an Error if NCCL has noticed that a peer or the network is gone. Whoever waits for a
  // device calls it (kernels/runtime/device_wait.h).
  void check_peers();
  static void check_all();
  static void abort_all();

  std::unique_ptr<Transport> host_;
  NcclMemory* memory_;
  bool compare_;
  NcclOptions options_;
  ncclComm* nccl_;
};

}  // namespace ladder
