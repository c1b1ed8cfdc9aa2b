// One call of an emulated NCCL operation, and the MPI that does it.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <vector>

struct ncclComm {
  MPI_Comm mpi;
  int rank, size;
  std::vector<std::future<void>> sends = {};  // under way
  std::atomic<bool> aborted = false;
};

namespace ladder::emulator {

enum class NcclCall { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

struct NcclOperation {
  NcclCall call;
  const void* send;  // device memory; null where the call has none
  void* recv;
  size_t count;  // as the call gives it
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // root, or the other rank
  ncclComm_t comm;
};

// Something is wrong between ranks, or with MPI.
struct NcclFailure {
  ncclResult_t result;
  std::string text;
};

// Throws NcclFailure unless the MPI call succeeded.
void check_mpi(int result);

// Runs a collective. Throws NcclFailure where the ranks' calls differ.
void run_collective(const NcclOperation& operation);
// Starts sends, from copies of their buffers, and then runs recvs, so that no order is needed.
// Throws NcclFailure where a message has another size than its receiver expects.
void run_transfers(std::span<const NcclOperation> operations);
// Returns when all sends have ended; once the communicator is aborted, at once.
void finish_sends(ncclComm& comm);

size_t size_of(ncclDataType_t type);

}  // namespace ladder::emulator
