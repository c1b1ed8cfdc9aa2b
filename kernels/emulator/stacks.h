// The memory that threads run on: their stacks, and the dynamic shared memory of a thread block.
// Both end at fences.
#pragma once

#include <cstddef>

namespace ladder::emulator {

inline constexpr size_t kStackBytes = 128 << 10;  // the bytes of one thread's stack

// Returns the lowest address of stack `index`. Below it is a fence. REQUIRES: index < 1024.
void* stack(size_t index);

// Returns the end of the dynamic shared memory, where a fence begins.
void* dynamic_shared_end();

}  // namespace ladder::emulator
