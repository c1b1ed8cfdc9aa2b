// The part of the CUDA runtime that the project uses, for builds without CUDA: see
// kernels/emulator/README.md. Names, values and meanings are CUDA's, so that sources compile
// unchanged with both.
#pragma once

#include "kernels/emulator/atomics.h"
#include "kernels/emulator/device.h"
#include "kernels/emulator/host_api.h"
#include "kernels/emulator/vector_types.h"
#include "kernels/emulator/warp.h"
