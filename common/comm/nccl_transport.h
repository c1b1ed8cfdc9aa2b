// Ranks that have a GPU each, by NCCL.
#pragma once

#include <memory>
#include <string>

#include "common/comm/nccl_memory.h"
#include "common/comm/transport.h"

namespace ladder {

// Operations on device memory are NCCL's, queued on the device; those on host memory (losses,
// norms) go to a communicator of the same ranks that this one owns.
class NcclTransport final : public Transport {
 public:
  // `host`: the ranks. `memory`: registered buffers, or null; must outlive the communicator.
  // `compare`: each call is first compared with the peers' over `host`, which makes the host wait
  // for them. Collective. REQUIRES: each rank has selected a GPU of its own (device.h).
  static std::unique_ptr<Transport> make(std::unique_ptr<Transport> host, DeviceType device,
                                         NcclMemory* memory, bool compare);
  ~NcclTransport() override;

  std::unique_ptr<Transport> split(size_t color) override;
  void give_up() override;

  // "2.28.9"
  static std::string version();

 private:
  NcclTransport(std::unique_ptr<Transport> host, DeviceType device, NcclMemory* memory,
                bool compare);
  size_t execute(const Request& request) override { return host_->execute(request); }
  void enqueue(const Request& request, Stream& queue) override;
  // Throws where NCCL has noticed that a peer or the network is gone.
  void check_peers();
  void abort();

  std::unique_ptr<Transport> host_;
  NcclMemory* memory_;
  bool compare_;
  ncclComm* nccl_ = nullptr;
};

}  // namespace ladder
