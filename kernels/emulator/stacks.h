// The memory that threads run on: fenced stacks, and the dynamic shared memory of a block.
#pragma once

#include <cstddef>

namespace ladder::emulator {

inline constexpr size_t kStackBytes = 128 << 10;  // of one thread

// The lowest address of stack `index`. Below it lies a fence. REQUIRES: index < 1024.
void* stack(size_t index);

// The end of the dynamic shared memory, where a fence begins.
void* dynamic_shared_end();

}  // namespace ladder::emulator
