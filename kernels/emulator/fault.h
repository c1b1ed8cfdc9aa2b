// What a segmentation fault means where the emulator has fenced memory off.
#pragma once

#include <cstddef>

namespace ladder::emulator {

enum class Fence { device_memory, thread_stacks, dynamic_shared };

// Tells which addresses are fenced: the `bytes` from `begin`. One range per kind of fence.
void set_fence(Fence fence, const void* begin, size_t bytes);

// From now on a fault within a fence writes a line to stderr that says what happened and in which
// kernel and thread, before it takes its usual course (an earlier handler, else the end of the
// process). Also gives the calling OS thread a stack for signal handlers, on which the overflow of
// another stack can be reported. Call it again whenever somebody else may have replaced the
// handler.
void explain_faults();

}  // namespace ladder::emulator
