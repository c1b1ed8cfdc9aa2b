#include "kernels/emulator/stacks.h"

#include <sys/mman.h>

#include <cstdint>

#include "kernels/emulator/fault.h"
#include "kernels/emulator/host_state.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr size_t kNumStacks = 1024;
constexpr size_t kSharedSpace = 256 << 10;  // room for the largest, in whole pages
static_assert(kSharedSpace >= kSharedBytesOptin);
constexpr size_t kFenceBytes = 128 << 10;  // no frame of a kernel should be large enough to jump it

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

constexpr size_t kStacksBytes = kNumStacks * (kFenceBytes + kStackBytes);  // of all stacks

char* make_stacks() {
  char* const begin = reserve(kStacksBytes);
  for (size_t i = 0; i < kNumStacks; ++i) fence(begin + i * (kFenceBytes + kStackBytes));
  set_fence(Fence::thread_stacks, begin, kStacksBytes);
  return begin;
}

char* stacks() {
  static char* const begin = make_stacks();
  return begin;
}

char* make_dynamic_shared() {
  char* const begin = reserve(kSharedSpace + kFenceBytes);
  fence(begin + kSharedSpace);
  set_fence(Fence::dynamic_shared, begin, kSharedSpace + kFenceBytes);
  return begin;
}

}  // namespace

void* stack(size_t index) { return stacks() + index * (kFenceBytes + kStackBytes) + kFenceBytes; }

bool is_on_stack(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at - reinterpret_cast<std::uintptr_t>(stacks()) < kStacksBytes;
}

std::span<const char> dynamic_shared_addresses() {
  static char* const begin = make_dynamic_shared();
  return {begin, kSharedSpace + kFenceBytes};
}

void* dynamic_shared_end() {
  return const_cast<char*>(dynamic_shared_addresses().data()) + kSharedSpace;
}

}  // namespace ladder::emulator
