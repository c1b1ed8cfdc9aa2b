// The part of NCCL that the project calls, for the emulator. Names, arguments and error codes are
// NCCL's; the ranks are MPI's. A call, or the end of the group that it belongs to, returns when the
// ranks have exchanged their data. By then a send has been started, from a copy of its buffer. What
// was received is stored when the stream reaches the operation (kernels/emulator/streams.h).
//
// NCCL reports wrong arguments of one rank, and hangs if the calls of the ranks do not match. Here
// both are errors, and ncclGetLastError says which.
#pragma once

#include <climits>
#include <cstddef>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

// Windows came with 2.27; 2.19 is the oldest NCCL that has all other functions. A test compiles
// what includes this as if it were 2.19. LADDER_EMULATOR_NCCL_VERSION, such as 21900, is what
// ncclGetVersion says instead; what that NCCL lacks then fails.
#ifndef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 22700
#endif
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_UNIQUE_ID_BYTES 128

using ncclComm_t = struct ncclComm*;

struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,      // MPI failed, or was not initialized
  ncclInvalidArgument = 4,  // of this call
  ncclInvalidUsage = 5,     // calls that do not belong together, on this rank or between ranks
  ncclRemoteError = 6,      // a peer has aborted its communicator
};
enum ncclDataType_t {
  ncclInt32 = 2,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2 };

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
// Returns a text that explains the calling thread's last error.
const char* ncclGetLastError(ncclComm_t);

// To make a communicator, one of its ranks makes the id and gives it to the others by any means;
// then all of them call ncclCommInitRank, which is collective. In NCCL any process may make the id;
// here it must be one of the ranks.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank);

// How a communicator works. All of NCCL_CONFIG_INITIALIZER means NCCL's own choice. Between minCTAs
// and maxCTAs thread blocks carry out a collective; here they change nothing.
struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int minCTAs, maxCTAs;
};
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_INITIALIZER                                                 \
  {                                                                             \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT                                                   \
  }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);

// Makes a communicator of the ranks that give the same color, in the order of their keys, with the
// configuration of `comm`: here config is null. Collective over `comm`, of which no operation may
// be under way. A rank that gives NCCL_SPLIT_NOCOLOR gets null.
#define NCCL_SPLIT_NOCOLOR (-1)
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config);
// ncclCommDestroy is collective. ncclCommAbort is not: it is for a rank whose peers may never come.
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
// Sets `error` to ncclRemoteError once a peer has called ncclCommAbort. NCCL says so where it talks
// to the peer over a network; within a machine it may not notice.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

// ncclMemAlloc gives device memory that a communicator can use in place once it is registered.
ncclResult_t ncclMemAlloc(void** pointer, size_t bytes);
ncclResult_t ncclMemFree(void* pointer);
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);

#if NCCL_VERSION_CODE >= 22700
// A symmetric window is memory of the same size on every rank, which the others read and write.
// Registering it is collective; where windows cannot be, `window` becomes null. An operation must
// then use the same place of the same window on every rank (its part of all_gather's result, or of
// reduce_scatter's input, counts as the same). NCCL does not check that. Here it is an error, and
// so are buffers that are registered on some ranks only.
using ncclWindow_t = struct NcclRegistration*;
#define NCCL_WIN_COLL_SYMMETRIC 1
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
#endif

// Collectives on device memory. Here recv becomes the sum (or maximum) of all ranks' send, taken in
// rank order. recv == send is allowed.
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
// recv (count) = this rank's part of the sum of send (ranks * count).
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
// recv (ranks * count) = all ranks' send (count), in rank order.
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
// recv = the root's send. The other ranks' send is not read.
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
// On the root recv becomes what ncclAllReduce gives; on other ranks recv is not written.
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);

// A transfer is an ncclSend on one rank and an ncclRecv with the same count and type on the other.
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

// Calls between ncclGroupStart and ncclGroupEnd begin together, at the end, so the sends and
// receives of one group need no order. Of nested groups only the outermost counts. Its end returns
// the first error of its calls; then none of them has begun. ncclCommAbort is such a call too.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
