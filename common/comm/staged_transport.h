// Ranks that share a GPU, which NCCL refuses: through host memory.
#pragma once

#include <memory>

#include "common/comm/transport.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// Operations on device memory go in pieces: device -> pinned host memory, the operation by a
// communicator of the same ranks that this one owns, pinned host memory -> device. So sums are
// taken in rank order. Operations on host memory go to that communicator as they are.
class StagedTransport final : public Transport {
 public:
  // `staging_bytes`: of each of the two areas, for what goes out and what comes in. Collective.
  static std::unique_ptr<Transport> make(std::unique_ptr<Transport> host, DeviceType device,
                                         size_t staging_bytes = size_t{8} << 20);

  std::unique_ptr<Transport> split(size_t color) override;
  void give_up() override;

 private:
  StagedTransport(std::unique_ptr<Transport> host, DeviceType device, size_t staging_bytes);
  size_t execute(const Request& request) override;
  // Elements [first, first + count) of each of the request's blocks. Returns the bytes moved.
  size_t execute_piece(const Request& request, size_t first, size_t count);

  std::unique_ptr<Transport> host_;
  size_t staging_bytes_;
  Memory memory_;
  Tensor out_, in_;
  Stream stream_;
};

}  // namespace ladder
