// CUDA's runtime, or the emulator's (kernels/emulator), and how its errors become ours. For bodies
// of kernels and of the runtime; nothing above kernels/ includes this but communicators.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "kernels/runtime/check.h"

namespace ladder {

// Throws Error, naming the call and its place in the source, unless it succeeded. `call` is its
// name, such as "cudaMalloc".
inline void cuda_check(cudaError_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // or the next launch would report this one
  fail(concat(call, ": ", cudaGetErrorName(result), ", ", cudaGetErrorString(result)), where);
}

}  // namespace ladder
