// What the calls of the emulated NCCL share: errors, refusals, groups.
#pragma once

#include <nccl.h>

#include <exception>
#include <string>
#include <vector>

#include "common/comm/emulator/operation.h"

namespace ladder::emulator {

// What one thread has called since its outermost ncclGroupStart.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<NcclOperation> operations;
  std::vector<ncclComm_t> aborts;
};
// Returns the calling thread's.
Group& group();

// Notes the calling thread's last error, and returns `result`.
ncclResult_t report(ncclResult_t result, const std::string& text);

// Calls body() and returns what it throws as a result.
template <class Body>
ncclResult_t guarded(Body body) {
  try {
    body();
    return ncclSuccess;
  } catch (const NcclFailure& failure) {
    return report(failure.result, failure.text);
  } catch (const std::exception& error) {
    return report(ncclSystemError, error.what());
  }
}

inline void require(bool condition, const char* text) {
  if (!condition) throw NcclFailure{ncclInvalidArgument, text};
}

// Throws if this call is to fail (kernels/emulator/refusals.h). Returns false if it is to do
// nothing and succeed all the same.
bool allow(const std::string& function);

// Throws unless the version of NCCL that is emulated has what came with `version`.
void require_version(int version, const std::string& function);

// Aborts a communicator now.
void abort(ncclComm_t comm);

}  // namespace ladder::emulator
