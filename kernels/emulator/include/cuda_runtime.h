// What the project uses of the CUDA runtime, when there is no CUDA: see kernels/emulator/README.md.
// Names, values and meanings are CUDA's, so that a source compiles unchanged against either.
#pragma once

#include "kernels/emulator/atomics.h"
#include "kernels/emulator/device.h"
#include "kernels/emulator/host_api.h"
#include "kernels/emulator/vector_types.h"
#include "kernels/emulator/warp.h"
