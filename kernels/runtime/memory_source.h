// Where memory comes from.
#pragma once

#include <cstddef>

#include "kernels/runtime/device.h"

namespace ladder {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Zero-filled, aligned to 64 bytes; null where there is no more.
  virtual void* allocate(size_t bytes) = 0;
  // REQUIRES: allocate(bytes) returned `pointer`.
  virtual void release(void* pointer, size_t bytes) noexcept = 0;
};

// The device's own memory. On the CPU large pieces ask for huge pages.
MemorySource& memory_of(DeviceType device);

// Addresses of no memory at all, for counting what a program would allocate (an arena with this
// source counts as always). Whoever reads or writes there ends the program. Thread-safe.
MemorySource& no_memory();

// Host memory from and to which copies of `device` are fast and asynchronous: pinned for CUDA, any
// for the CPU.
MemorySource& host_memory_for(DeviceType device);

}  // namespace ladder
