#include "common/virtual/lazy_memory.h"

#include <sys/mman.h>

namespace ladder {

void* LazyMemory::allocate(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void LazyMemory::release(void* pointer, size_t bytes) noexcept { munmap(pointer, bytes); }

}  // namespace ladder
