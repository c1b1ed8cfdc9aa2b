// NCCL's calls: what they check, groups, and how communicators come to be.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "common/comm/emulator/operation.h"
#include "kernels/emulator/arena.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/refusals.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

// What one thread has called since its outermost ncclGroupStart.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<NcclOperation> operations;
  std::vector<ncclComm_t> aborts;
};

thread_local Group group;
thread_local std::string last_error;

ncclResult_t report(ncclResult_t result, const std::string& text) {
  last_error = text;
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

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

void require(bool condition, const char* text) {
  if (!condition) throw NcclFailure{ncclInvalidArgument, text};
}

// Throws if this call is to fail (kernels/emulator/refusals.h).
void allow(const std::string& function) {
  const auto status = refused(function);
  if (!status) return;
  const auto result = static_cast<ncclResult_t>(*status);
  throw NcclFailure{result, result == ncclUnhandledCudaError ? "Cuda failure 2 'out of memory'"
                                                             : function + " was refused"};
}

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
    if (group.depth > 0) {
      group.operations.push_back(o);
    } else {
      run_operations({&o, 1});
    }
  });
}

void abort(ncclComm_t comm) {
  comm->aborted = true;
  finish_sends(*comm);
  tell_peers_of_abort(*comm);
  delete comm;  // MPI's is not freed: that is collective, and the program is about to end
}

}  // namespace
}  // namespace ladder::emulator

using namespace ladder::emulator;

ncclResult_t ncclGetVersion(int* version) {
  return guarded([&] {
    require(version != nullptr, "version is null");
    *version = NCCL_VERSION_CODE;
  });
}

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

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&] {
    require(id != nullptr, "id is null");
    static std::atomic<int> serial = 0;
    const Id made = {world_rank(), serial++};
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, &made, sizeof made);
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank) {
  return guarded([&] {
    require(comm != nullptr && num_ranks > 0 && rank >= 0 && rank < num_ranks,
            "comm is null, or the rank is none");
    Id known;
    std::memcpy(&known, id.internal, sizeof known);
    // Messages of other groups that meet now have other tags.
    const int tag = 1000 + known.serial % 30000;
    const std::vector<int> members = meet(known, num_ranks, rank, tag);
    require(members[0] != -1, "two processes have the same rank");
    MPI_Group world, ranks;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world));
    check_mpi(MPI_Group_incl(world, num_ranks, members.data(), &ranks));
    MPI_Comm mpi = MPI_COMM_NULL;
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, ranks, tag, &mpi));
    MPI_Group_free(&ranks);
    MPI_Group_free(&world);
    check_mpi(MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN));
    *comm = new ncclComm{mpi, rank, num_ranks};
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] {
    require(comm != nullptr, "the communicator is null");
    finish_sends(*comm);
    check_mpi(MPI_Comm_free(&comm->mpi));
    delete comm;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    require(comm != nullptr, "the communicator is null");
    group.depth > 0 ? group.aborts.push_back(comm) : abort(comm);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] {
    require(comm != nullptr && error != nullptr, "an argument is null");
    // Whatever else fails here is returned by the call.
    *error = has_peer_aborted(*comm) ? ncclRemoteError : ncclSuccess;
  });
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return guarded([&] {
    allow("ncclMemAlloc");
    const cudaError_t status = cudaMalloc(pointer, bytes);
    if (status == cudaSuccess) return;
    throw NcclFailure{ncclUnhandledCudaError,
                      ladder::concat("Cuda failure ", static_cast<int>(status), " '",
                                     cudaGetErrorString(status), "'")};
  });
}

ncclResult_t ncclMemFree(void* pointer) {
  // Unlike cudaFree it does not wait for the device.
  return Arena::instance().release(pointer)
             ? ncclSuccess
             : report(ncclInvalidArgument, "not memory of ncclMemAlloc");
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return guarded([&] {
    require(comm != nullptr && handle != nullptr, "an argument is null");
    require(Arena::instance().holds(buffer, bytes), "the buffer is not device memory");
    allow("ncclCommRegister");
    auto registration = std::make_shared<NcclRegistration>(Range{buffer, bytes});
    *handle = registration.get();
    comm->registrations.push_back(std::move(registration));
  });
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return guarded([&] {
    require(comm != nullptr && handle != nullptr, "an argument is null");
    const auto found =
        std::ranges::find(comm->registrations, handle, &std::shared_ptr<NcclRegistration>::get);
    require(found != comm->registrations.end(), "no such registration");
    (*found)->ended = true;
    comm->registrations.erase(found);
  });
}

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
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return report(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  Group ended;
  std::swap(ended, group);
  if (ended.error != ncclSuccess) return ended.error;
  return guarded([&] {
    for (ncclComm_t comm : ended.aborts) abort(comm);
    run_operations(ended.operations);
  });
}
