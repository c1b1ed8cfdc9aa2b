// Device memory of the emulated NCCL, and what is registered with its communicators.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/comm/emulator/calls.h"
#include "common/comm/emulator/made.h"
#include "kernels/emulator/arena.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

std::atomic<size_t> num_registered = 0;

// Returns the registration as a handle.
NcclRegistration* enter(ncclComm& comm, const NcclRegistration& registration) {
  ++num_registered;
  comm.registrations.push_back(std::make_shared<NcclRegistration>(registration));
  return comm.registrations.back().get();
}

void remove(ncclComm_t comm, const void* handle) {
  require(comm != nullptr && handle != nullptr, "an argument is null");
  const auto found =
      std::ranges::find(comm->registrations, handle, &std::shared_ptr<NcclRegistration>::get);
  require(found != comm->registrations.end(), "no such registration");
  (*found)->ended = true;
  comm->registrations.erase(found);
  --num_registered;
}

}  // namespace

size_t num_registrations() { return num_registered; }

}  // namespace ladder::emulator

using namespace ladder::emulator;

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
    *handle = enter(*comm, {{buffer, bytes}});
  });
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return guarded([&] { remove(comm, handle); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return guarded([&] {
    const char* const name = "ncclCommWindowRegister";
    require_version(NCCL_VERSION(2, 27, 0), name);
    require(comm != nullptr && window != nullptr, "an argument is null");
    require(flags == NCCL_WIN_COLL_SYMMETRIC, "a window that is not symmetric");
    require(Arena::instance().holds(buffer, bytes), "the buffer is not device memory");
    const bool can = allow(name);
    std::vector<uint64_t> all(static_cast<size_t>(comm->size));
    check_mpi(MPI_Allgather(&bytes, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, comm->mpi));
    if (std::ranges::any_of(all, [&](uint64_t of_peer) { return of_peer != bytes; })) {
      throw NcclFailure{ncclInvalidUsage, "the ranks' windows differ in size"};
    }
    const int number = comm->num_windows++;
    *window = can ? static_cast<ncclWindow_t>(enter(*comm, {{buffer, bytes}, number})) : nullptr;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return guarded([&] { remove(comm, window); });
}
