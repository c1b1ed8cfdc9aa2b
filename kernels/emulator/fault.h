// Explains segmentation faults in memory that the emulator has fenced off.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder::emulator {

enum class Fence { device_memory, thread_stacks, dynamic_shared };

// Says that the `bytes` bytes from `begin` on are fenced off. There is one range of each kind.
void set_fence(Fence fence, const void* begin, size_t bytes);

// From now on a fault within a fence writes a line to standard error that says what happened, and
// in which kernel and thread. Then it takes its usual course: an earlier handler, or the end of the
// process. It also gives the calling OS thread a stack for signal handlers, so that the overflow of
// its stack can be reported. Call it again whenever other code may have replaced the handler.
void explain_faults();

// From now on each fault first asks `allows`, with the address and whether it is written there. If
// it returns true the access is tried again. It must call nothing that a signal handler must not.
void set_fault_filter(bool (*allows)(std::uintptr_t address, bool writes));
// Writes "CUDA emulator: host code at 0x... <what><which>" to standard error. It is for the filter.
void explain_fault(std::uintptr_t address, const char* what, const char* which);

}  // namespace ladder::emulator
