// Includes CUDA's runtime, or the emulator's (kernels/emulator), and turns its errors into Error.
// It is for the bodies of kernels and of the runtime. Above kernels/ only communicators include it.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "kernels/runtime/check.h"

namespace ladder {

// Throws an Error that names the call and its place in the source, unless `result` is cudaSuccess.
// `call` is the function's name, such as "cudaMalloc".
inline void cuda_check(cudaError_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next launch would report otherwise
  fail(concat(call, ": ", cudaGetErrorName(result), ", ", cudaGetErrorString(result)), where);
}

}  // namespace ladder
