// Sources of memory: the device's own, memory that ranks share, pinned host memory, none at all.
#pragma once

#include <cstddef>

#include "kernels/runtime/device.h"

namespace ladder {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Returns memory that is zero and aligned to 64 bytes, or null if there is no more.
  virtual void* allocate(size_t bytes) = 0;
  // Stands in for allocate() on a rank that needs nothing where other ranks may.
  virtual void allocate_nothing() {}
  // Frees memory. REQUIRES: allocate(bytes) returned `pointer`.
  virtual void release(void* pointer, size_t bytes) noexcept = 0;
};

// Returns the source of the device's own memory. On the CPU large allocations ask for huge pages.
MemorySource& memory_of(DeviceType device);

// Returns a source of addresses without memory, for counting what a program would allocate: an
// arena with this source counts as always. Reading or writing there ends the program. It is
// thread-safe.
MemorySource& no_memory();

// Returns the source of host memory from which and to which copies of `device` are fast and
// asynchronous. For CUDA it is pinned memory; for the CPU it is any memory.
MemorySource& host_memory_for(DeviceType device);

}  // namespace ladder
