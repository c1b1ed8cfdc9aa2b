// The operations of the emulated NCCL, and how MPI carries them out.
//
// In NCCL an operation begins when its stream reaches it, and ends after all ranks have begun it.
// Here the call itself runs what is queued on its stream, exchanges the data, and then queues only
// the storing of what was received (kernels/emulator/streams.h). So a rank waits for its peers only
// inside calls of NCCL, and no program waits here that would not wait with NCCL. Two mistakes still
// show: a program that uses the result too soon finds the old values, and a program that changes
// the send buffer before the operation has ended gets an error.
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
  int window = -1;  // its number among the communicator's windows; -1: it is no window
  bool ended = false;
};

struct ncclComm {
  MPI_Comm mpi;
  int rank, size;
  int max_ctas;         // of its configuration
  int num_windows = 0;  // that its ranks have registered so far
  std::vector<std::shared_ptr<NcclRegistration>> registrations = {};
  std::vector<std::future<void>> sends = {};  // the sends that have not ended
  std::atomic<bool> aborted = false;
};

namespace ladder::emulator {

enum class NcclCall { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

struct NcclOperation {
  NcclCall call;
  const void* send;  // device memory; null where the call has none
  void* recv;
  size_t send_count, recv_count;  // elements of the two buffers; 0 where the call has none
  size_t count;                   // the call's own argument
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // the root, or the other rank of a send or recv
  ncclComm_t comm;
  cudaStream_t stream;
};

// The exception for calls that do not match between ranks, and for errors of MPI.
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

// The largest number of elements in one message.
inline constexpr size_t kSegment = size_t{1} << 16;

// What a unique id holds.
struct Id {
  int maker;  // rank in MPI_COMM_WORLD
  int serial;
};
// Returns this process's rank in MPI_COMM_WORLD. Throws NcclFailure if there is no MPI yet.
int world_rank();
// Returns the ranks in MPI_COMM_WORLD of the new communicator's ranks, which the maker of the id
// collects. The first one is -1 if two ranks claim the same place.
std::vector<int> meet(const Id& id, int num_ranks, int rank, int tag);

// Runs operations that belong to one group. Returns when their results have arrived; the streams
// store them later. Throws NcclFailure, and stores nothing, if the ranks' calls do not match.
void run_operations(std::span<const NcclOperation> operations);

// Runs one collective and sets its `received`. Throws NcclFailure if the ranks' calls differ.
void exchange_collective(Exchange& exchange);
// Starts all sends and then runs the recvs, so the ranks need no common order. Sets `received` of
// the recvs. Throws NcclFailure if a message has another size than its receiver expects.
void exchange_messages(std::span<Exchange* const> exchanges);
// Returns when all sends have ended, or at once if the communicator is aborted.
void finish_sends(ncclComm& comm);
// Sends every peer a message that says so. The message has no data, so no peer need receive it.
void tell_peers_of_abort(ncclComm& comm);
bool has_peer_aborted(const ncclComm& comm);

}  // namespace ladder::emulator
