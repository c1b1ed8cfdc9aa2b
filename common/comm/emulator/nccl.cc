// NCCL's operations, groups of calls, and errors.
#include <nccl.h>

#include <string>

#include "common/comm/emulator/calls.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/refusals.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

thread_local std::string last_error;

// A call of an operation, alone or in a group.
ncclResult_t call(const NcclOperation& o) {
  return guarded([&] {
    allow(ladder::concat("nccl", name_of(o.call)));
    require(o.comm != nullptr, "the communicator is null");
    require(is_stream(o.stream), "no such stream");
    require(o.op == ncclSum || o.op == ncclMax, "no such reduction");
    require(o.peer >= 0 && o.peer < o.comm->size, "no such rank in the communicator");
    const size_t unit = size_of(o.type);
    const Arena& arena = Arena::instance();
    require(o.send_count == 0 || arena.holds(o.send, o.send_count * unit),
            "the send buffer is not device memory");
    require(o.recv_count == 0 || arena.holds(o.recv, o.recv_count * unit),
            "the receive buffer is not device memory");
    if (group().depth > 0) {
      group().operations.push_back(o);
    } else {
      run_operations({&o, 1});
    }
  });
}

}  // namespace

Group& group() {
  thread_local Group of_thread;
  return of_thread;
}

ncclResult_t report(ncclResult_t result, const std::string& text) {
  last_error = text;
  if (group().depth > 0 && group().error == ncclSuccess) group().error = result;
  return result;
}

bool allow(const std::string& function) {
  const auto status = refused(function);
  if (!status) return true;
  const auto result = static_cast<ncclResult_t>(*status);
  if (result == ncclSuccess) return false;
  throw NcclFailure{result, result == ncclUnhandledCudaError ? "Cuda failure 2 'out of memory'"
                                                             : function + " was refused"};
}

}  // namespace ladder::emulator

using namespace ladder::emulator;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a CUDA call failed";
    case ncclSystemError:
      return "a system call failed";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "a peer has ended or given up";
  }
  return "unknown error";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call({NcclCall::all_reduce, send, recv, count, count, count, type, op, 0, comm, stream});
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const size_t whole = comm == nullptr ? 0 : count * static_cast<size_t>(comm->size);
  return call(
      {NcclCall::reduce_scatter, send, recv, whole, count, count, type, op, 0, comm, stream});
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t whole = comm == nullptr ? 0 : count * static_cast<size_t>(comm->size);
  return call(
      {NcclCall::all_gather, send, recv, count, whole, count, type, ncclSum, 0, comm, stream});
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const size_t sent = comm != nullptr && comm->rank == root ? count : 0;
  return call(
      {NcclCall::broadcast, send, recv, sent, count, count, type, ncclSum, root, comm, stream});
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const size_t received = comm != nullptr && comm->rank == root ? count : 0;
  return call({NcclCall::reduce, send, recv, count, received, count, type, op, root, comm, stream});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call({NcclCall::send, send, nullptr, count, 0, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({NcclCall::recv, nullptr, recv, 0, count, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return report(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return ncclSuccess;
  Group ended;
  std::swap(ended, group());
  if (ended.error != ncclSuccess) return ended.error;
  return guarded([&] {
    for (ncclComm_t comm : ended.aborts) abort(comm);
    run_operations(ended.operations);
  });
}
