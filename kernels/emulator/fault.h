// What a segmentation fault means where the emulator has fenced memory off.
#pragma once

#include <cstddef>

namespace ladder::emulator {

enum class Fence { device_memory, thread_stacks, dynamic_shared };

// From now on a fault within the `bytes` from `begin` writes a line to stderr that says what
// happened and in which kernel and thread, before the fault takes its usual course (an earlier
// handler, else the end of the process). One range per kind of fence.
void explain_faults(Fence fence, const void* begin, size_t bytes);

// Gives the calling OS thread a stack for signal handlers, on which the overflow of another stack
// can be reported. Again and again is fine.
void ensure_signal_stack();

}  // namespace ladder::emulator
