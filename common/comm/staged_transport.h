// The transport between ranks that share a GPU, which NCCL refuses: it copies through host memory.
#pragma once

#include <memory>

#include "common/comm/transport.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// An operation on device memory is done in segments. Each segment is copied to pinned host memory,
// the transport between the hosts does the operation there, and the result is copied to the device.
// So sums are taken in rank order. Operations on host memory go to that transport as they are.
class StagedTransport final : public Transport {
 public:
  // Makes the group of the ranks of `host`, which it owns from now on. It allocates two areas of
  // `staging_bytes` bytes in host memory: one for segments that go out, one for results.
  // Collective.
  static std::unique_ptr<Transport> make(std::unique_ptr<Transport> host, DeviceType device,
                                         size_t staging_bytes = size_t{8} << 20);

  std::unique_ptr<Transport> split(size_t color) override;
  void give_up() override;

 private:
  StagedTransport(std::unique_ptr<Transport> host, DeviceType device, size_t staging_bytes);
  Moved execute(const Request& request) override;
  // Runs the operation on elements [first, first + count) of each rank's part of the buffers.
  // Returns the bytes moved between hosts.
  Moved execute_segment(const Request& request, size_t first, size_t count);
  // Does the same for an all_to_all, whose parts may have different sizes, segment by segment.
  Moved all_to_all(const Request& request);

  std::unique_ptr<Transport> host_;
  size_t staging_bytes_;
  Memory memory_;
  Tensor out_, in_;
  Stream stream_;
};

}  // namespace ladder
