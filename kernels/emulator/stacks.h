// The memory that threads run on: their stacks, and the dynamic shared memory of a thread block.
// Both end at fences.
#pragma once

#include <cstddef>
#include <span>

namespace ladder::emulator {

inline constexpr size_t kStackBytes = 128 << 10;  // the bytes of one thread's stack

// Returns the lowest address of stack `index`. Below it is a fence. REQUIRES: index < 1024.
void* stack(size_t index);

// Returns whether the address is on the stack of a thread.
bool is_on_stack(const void* address);

// Returns the addresses of the dynamic shared memory of any size, and of the fence at its end.
std::span<const char> dynamic_shared_addresses();

// Returns the end of the dynamic shared memory, where a fence begins.
void* dynamic_shared_end();

}  // namespace ladder::emulator
