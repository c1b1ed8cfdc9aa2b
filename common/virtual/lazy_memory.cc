#include "common/virtual/lazy_memory.h"

#include <sys/mman.h>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kReserved = size_t{1} << 44;  // 16 TiB of 128 TiB that a process may address
constexpr size_t kPage = size_t{4} << 10;

size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

LazyMemory::LazyMemory() {
  void* const mapped = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(mapped != MAP_FAILED, "the system has no addresses for the hosts of simulated ranks");
  begin_ = static_cast<char*>(mapped);
}

LazyMemory::~LazyMemory() { munmap(begin_, kReserved); }

void* LazyMemory::allocate(size_t bytes) {
  if (bytes > kReserved || used_ > kReserved - pages(bytes)) return nullptr;
  void* const pointer = begin_ + used_;
  used_ += pages(bytes);
  return pointer;
}

void LazyMemory::release(void* pointer, size_t bytes) noexcept {
  madvise(pointer, pages(bytes), MADV_DONTNEED);
}

}  // namespace ladder
