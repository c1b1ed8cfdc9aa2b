// Includes NCCL, or its emulator (common/comm/emulator), and turns its errors into Error.
#pragma once

#include <nccl.h>

#include <source_location>

#include "kernels/runtime/check.h"

namespace ladder {

// Throws an Error that names the call and its place in the source, unless `result` is ncclSuccess.
// `call` is the function's name, such as "ncclAllReduce".
inline void nccl_check(ncclResult_t result, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (result == ncclSuccess) return;
  const char* const detail = ncclGetLastError(nullptr);
  fail(concat(call, ": ", ncclGetErrorString(result), detail != nullptr && *detail ? ": " : "",
              detail != nullptr ? detail : ""),
       where);
}

}  // namespace ladder
