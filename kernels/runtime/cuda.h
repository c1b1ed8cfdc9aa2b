// Includes CUDA's runtime, or the emulator's (kernels/emulator), and turns its errors into Error.
// It is for the bodies of kernels and of the runtime. Above kernels/ only communicators include it.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "kernels/runtime/check.h"
#include "kernels/runtime/memory.h"

namespace ladder {

// Throws an Error that names the call and its line of the source, unless `result` is cudaSuccess.
// `call` is the function's name, such as "cudaMalloc".
inline void cuda_check(cudaError_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next launch would report otherwise
  fail(concat(call, ": ", cudaGetErrorName(result), ", ", cudaGetErrorString(result)), where);
}

// Throws the Error for a library that finds no device memory left. `who` says which, and perhaps
// what for. What tensors find none of is an OutOfMemory (memory.h).
[[noreturn]] inline void fail_without_device_memory(const std::string& who) {
  cudaGetLastError();
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  throw Error(concat("out of device memory: ", who, " finds no more, with ", human_bytes(free),
                     " free; take a smaller --micro-batch-size, or a smaller --device-memory, "
                     "which leaves libraries more"));
}

}  // namespace ladder
