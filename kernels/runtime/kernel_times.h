// How long each kernel takes on a GPU, measured by events around every launch.
//
// LADDER_TIME_KERNELS=1 in a program's environment makes it print a table to standard error when it
// ends: for each kernel the time of all launches, how many there were, and the time of one. Names
// are short ones (kernels/emulator/registers.h). The first launch of each kernel is left out,
// because CUDA may load the kernel in it. Two launches do not overlap on their stream; where
// several streams are busy, a kernel's time is what it took beside the others.
//
// Every time is a microsecond or two too long, and longer where the GPU waits for the host to
// launch the kernel. The host also needs some microseconds for the two events, so a step may take a
// few percent longer.
#pragma once

namespace ladder {

// Begins to time kernels if the environment asks for it and nobody has begun yet. Streams call it.
void time_kernels_if_asked();

}  // namespace ladder
