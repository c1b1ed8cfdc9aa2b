// Operations of the emulated NCCL, and the MPI that does them.
//
// NCCL's operations begin when their stream comes to them, and end when those of all ranks have
// begun. Here the call itself runs what its stream was given before, exchanges the data, and gives
// the stream the rest of it: to store what was received (kernels/emulator/streams.h). So a rank
// waits for its peers within calls of NCCL, and nowhere else: what a program does between two calls
// cannot make ranks wait for each other that NCCL would not make wait. And yet a program that uses
// the result too soon finds the old values; one that changes what is sent before the operation has
// ended is told so.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/emulator/streams.h"

// A buffer that was registered with a communicator.
struct NcclRegistration {
  ladder::emulator::Range buffer;
  bool ended = false;
};

struct ncclComm {
  MPI_Comm mpi;
  int rank, size;
  std::vector<std::shared_ptr<NcclRegistration>> registrations = {};
  std::vector<std::future<void>> sends = {};  // under way
  std::atomic<bool> aborted = false;
};

namespace ladder::emulator {

enum class NcclCall { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

struct NcclOperation {
  NcclCall call;
  const void* send;  // device memory; null where the call has none
  void* recv;
  size_t send_count, recv_count;  // elements there; 0 where the call has none
  size_t count;                   // as the call gives it
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // root, or the other rank
  ncclComm_t comm;
  cudaStream_t stream;
};

// Something is wrong between ranks, or with MPI.
struct NcclFailure {
  ncclResult_t result;
  std::string text;
};

using Bytes = std::vector<char>;

// An operation under way: what the send buffer held when it began, what the receive buffer will
// hold when it ends, and which registrations it uses.
struct Exchange {
  NcclOperation operation;
  Bytes sent, received;
  std::vector<std::shared_ptr<NcclRegistration>> registrations = {};
};

// Throws NcclFailure unless the MPI call succeeded.
void check_mpi(int result);

size_t size_of(ncclDataType_t type);
const char* name_of(NcclCall call);

// Elements in one message.
inline constexpr size_t kPiece = size_t{1} << 16;

// Runs operations that belong to one group. Returns when their results have come; the streams store
// them. Throws NcclFailure, and stores nothing, where the calls of the ranks do not match.
void run_operations(std::span<const NcclOperation> operations);

// Sets `received` of every exchange. Throws NcclFailure where the ranks' calls differ.
void exchange_collective(Exchange& exchange);
// Starts sends and then runs recvs, so that no order is needed. Throws NcclFailure where a message
// has another size than its receiver expects.
void exchange_messages(std::span<Exchange* const> exchanges);
// Returns when all sends have ended; once the communicator is aborted, at once.
void finish_sends(ncclComm& comm);

}  // namespace ladder::emulator
