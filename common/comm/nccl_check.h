// NCCL, or its emulator (common/comm/emulator), and how its errors become ours.
#pragma once

#include <nccl.h>

#include <source_location>

#include "kernels/runtime/check.h"

namespace ladder {

// Throws Error, naming the call and its place in the source, unless it succeeded. `call` is its
// name, such as "ncclAllReduce".
inline void nccl_check(ncclResult_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == ncclSuccess) return;
  const char* const detail = ncclGetLastError(nullptr);
  fail(concat(call, ": ", ncclGetErrorString(result), detail != nullptr && *detail ? ": " : "",
              detail != nullptr ? detail : ""),
       where);
}

}  // namespace ladder
