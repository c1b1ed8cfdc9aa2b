// Registered buffers for NCCL: device memory that collectives use without copies.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>

#include "kernels/runtime/memory_source.h"

struct ncclComm;

namespace ladder {

// NcclMemory gives device memory that NCCL reads and writes in place, without staging buffers of
// its own: it comes from ncclMemAlloc and is registered with every communicator. What NCCL does if
// a buffer is registered on some ranks only is not defined. So either all ranks of a run take their
// buffers from here, or none does, and all take plain device memory: slower, with the same results.
// NcclMemory must outlive the communicators that are added. It is thread-safe.
class NcclMemory final : public MemorySource {
 public:
  // Returns whether NCCL can allocate memory here and register it with the communicators. Before
  // they take any, the ranks compare what they found.
  bool try_out();

  // Throws an Error if NCCL does not allocate or register the memory, although try_out() said so.
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) noexcept override;

  // Registers all memory, present and future, with the communicator.
  void add(ncclComm* communicator);
  // Ends the registrations with the communicator. It must be called before the communicator is
  // destroyed. If the communicator was aborted, `aborted` is true and NCCL is not called.
  void remove(ncclComm* communicator, bool aborted);

 private:
  struct Allocation {
    size_t bytes = 0;
    std::map<ncclComm*, void*> handles = {};
  };

  std::mutex mutex_;
  std::map<void*, Allocation> allocations_;
  std::set<ncclComm*> communicators_;
};

}  // namespace ladder
