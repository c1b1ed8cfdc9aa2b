// Host memory of simulated ranks.
#pragma once

#include "kernels/runtime/memory_source.h"

namespace ladder {

// Memory that costs something only where it is written. The host of a rank reads and writes a few
// small tensors, such as counts; thousands of ranks have large ones that nobody touches.
class LazyMemory final : public MemorySource {
 public:
  // Reserves addresses. Throws an Error if the system has none.
  LazyMemory();
  ~LazyMemory() override;

  void* allocate(size_t bytes) override;
  // The addresses are not used again.
  void release(void* pointer, size_t bytes) noexcept override;

 private:
  char* begin_;
  size_t used_ = 0;
};

}  // namespace ladder
