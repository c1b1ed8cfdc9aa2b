// Host memory of ranks that compute nothing.
#pragma once

#include "kernels/runtime/memory_source.h"

namespace ladder {

// Memory that costs something only where it is written. The host of a rank reads and writes a few
// small tensors, such as counts; thousands of ranks have large ones that nobody touches.
class LazyMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) noexcept override;
};

}  // namespace ladder
