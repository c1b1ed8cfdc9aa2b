#include "tests/common/checkpoint/watched.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ladder {

Watched watched;

}  // namespace ladder

// The program's own definitions go before those of the libraries.
extern "C" ssize_t pread(int descriptor, void* buffer, size_t count, off_t offset) {
  const auto done = syscall(SYS_pread64, descriptor, buffer, count, offset);
  if (done > 0) ladder::watched.bytes_read += static_cast<size_t>(done);
  return done;
}

// Both, as both are freed by the delete below.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ladder::watched.largest_allocation = std::max(ladder::watched.largest_allocation, size);
  return std::malloc(std::max<size_t>(size, 1));
}
void* operator new(size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
