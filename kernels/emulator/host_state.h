// State that the parts of the host API share.
#pragma once

#include <cstddef>

#include "kernels/emulator/host_api.h"

namespace ladder::emulator {

inline constexpr size_t kSharedBytes = 48 << 10;  // dynamic shared memory of any launch

// Remembers a failure for cudaGetLastError; returns the status.
cudaError_t note(cudaError_t status);

// Returns whether `stream` is nullptr (the default stream), or was created and not destroyed.
bool is_stream(cudaStream_t stream);

// Returns whether the pointer is in memory of cudaMallocHost.
bool is_pinned(const void* pointer);

// Returns the bytes of dynamic shared memory that launches of the kernel may ask for.
size_t shared_limit(const void* kernel);

}  // namespace ladder::emulator
