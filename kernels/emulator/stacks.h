// The memory that threads run on: their stacks, and the dynamic shared memory of a thread block.
// Both end at fences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ladder::emulator {

inline constexpr size_t kStackBytes = 128 << 10;  // the bytes of one thread's stack
inline constexpr size_t kFenceBytes = 128 << 10;  // no frame of a kernel should jump over a fence
inline constexpr size_t kMaxStacks = 1024;
inline constexpr size_t kAllStacksBytes = kMaxStacks * (kFenceBytes + kStackBytes);
inline constinit std::uintptr_t stacks_begin = 0;  // set when the first stack is made

// Returns the lowest address of stack `index`. Below it is a fence. REQUIRES: index < kMaxStacks.
void* stack(size_t index);

// Returns whether the address is on the stack of a thread.
inline bool is_on_stack(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - stacks_begin < kAllStacksBytes;
}

// Returns the addresses of the dynamic shared memory of any size, and of the fence at its end.
std::span<const char> dynamic_shared_addresses();

// Returns the end of the dynamic shared memory, where a fence begins.
void* dynamic_shared_end();

}  // namespace ladder::emulator
