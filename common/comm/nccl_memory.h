// Registered buffers for NCCL.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>

#include "kernels/runtime/memory_source.h"

struct ncclComm;

namespace ladder {

// Device memory that NCCL reads and writes in place, without its own staging buffers: allocated by
// ncclMemAlloc and registered with every communicator. Where NCCL cannot give any it is plain
// device memory, and where it cannot register, unregistered: slower, with the same results. Must
// outlive the communicators that are added.
class NcclMemory final : public MemorySource {
 public:
  explicit NcclMemory(DeviceType device) : device_(device) {}

  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) noexcept override;

  // From now on everything is registered with the communicator too.
  void add(ncclComm* communicator);
  // No more. To be called before the communicator ends; `aborted`: after it was aborted.
  void remove(ncclComm* communicator, bool aborted);

 private:
  struct Allocation {
    size_t bytes = 0;
    bool by_nccl = false;
    std::map<ncclComm*, void*> handles;
  };

  DeviceType device_;
  std::mutex mutex_;
  std::map<void*, Allocation> allocations_;
  std::set<ncclComm*> communicators_;
};

}  // namespace ladder
