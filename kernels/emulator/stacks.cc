#include "kernels/emulator/stacks.h"

#include <sys/mman.h>

#include <cstdint>

#include "kernels/emulator/fault.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr size_t kSharedSpace = 256 << 10;  // more than any GPU has

// Reserves addresses; pages come when they are first touched.
char* reserve(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail(concat("cannot reserve ", bytes, " bytes for the threads"));
  return static_cast<char*>(mapped);
}

void fence(char* begin) {
  if (mprotect(begin, kFenceBytes, PROT_NONE) != 0) fail("mprotect of a fence failed");
}

char* make_stacks() {
  char* const begin = reserve(kAllStacksBytes);
  for (size_t i = 0; i < kMaxStacks; ++i) fence(begin + i * (kFenceBytes + kStackBytes));
  set_fence(Fence::thread_stacks, begin, kAllStacksBytes);
  stacks_begin = reinterpret_cast<std::uintptr_t>(begin);
  return begin;
}

char* make_dynamic_shared() {
  char* const begin = reserve(kSharedSpace + kFenceBytes);
  fence(begin + kSharedSpace);
  set_fence(Fence::dynamic_shared, begin, kSharedSpace + kFenceBytes);
  return begin;
}

}  // namespace

void* stack(size_t index) {
  static char* const begin = make_stacks();
  return begin + index * (kFenceBytes + kStackBytes) + kFenceBytes;
}

std::span<const char> dynamic_shared_addresses() {
  static char* const begin = make_dynamic_shared();
  return {begin, kSharedSpace + kFenceBytes};
}

void* dynamic_shared_end() {
  return const_cast<char*>(dynamic_shared_addresses().data()) + kSharedSpace;
}

}  // namespace ladder::emulator
