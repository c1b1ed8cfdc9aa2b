// Includes NCCL, or its emulator (common/comm/emulator), and turns its errors into Error.
#pragma once

#include <nccl.h>

#include <source_location>
#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/cuda.h"

namespace ladder {

// Returns whether NCCL's last call has failed for want of device memory. NCCL has no code for it.
inline bool lacks_device_memory(ncclResult_t result) {
  const char* const detail = ncclGetLastError(nullptr);
  return result == ncclUnhandledCudaError && detail != nullptr &&
         std::string_view(detail).find("out of memory") != std::string_view::npos;
}

// Throws an Error that names the call and its place in the source, unless `result` is ncclSuccess.
// `call` is the function's name, such as "ncclAllReduce".
inline void nccl_check(ncclResult_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == ncclSuccess) return;
  if (lacks_device_memory(result)) fail_without_device_memory(concat("NCCL (", call, ")"));
  const char* const detail = ncclGetLastError(nullptr);
  fail(concat(call, ": ", ncclGetErrorString(result), detail != nullptr && *detail ? ": " : "",
              detail != nullptr ? detail : ""),
       where);
}

// Returns whether NCCL has what came with `version`, such as 22700 for 2.27: its header, and the
// NCCL that runs, which need not be the header's.
inline bool nccl_has_come(int version) {
  int running = 0;
  nccl_check(ncclGetVersion(&running), "ncclGetVersion");
  return NCCL_VERSION_CODE >= version && running >= version;
}

}  // namespace ladder
