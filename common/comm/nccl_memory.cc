#include "common/comm/nccl_memory.h"

#include "common/comm/nccl_check.h"
#include "kernels/runtime/cuda.h"

namespace ladder {
namespace {

// Returns NCCL's handle of the registration.
void* register_with(ncclComm* communicator, void* pointer, size_t bytes) {
  void* handle = nullptr;
  nccl_check(ncclCommRegister(communicator, pointer, bytes, &handle), "ncclCommRegister");
  return handle;
}

}  // namespace

bool NcclMemory::try_out() {
  constexpr size_t kBytes = size_t{1} << 20;
  const std::lock_guard lock(mutex_);
  void* pointer = nullptr;
  if (ncclMemAlloc(&pointer, kBytes) != ncclSuccess) {
    cudaGetLastError();  // clears the error, which the next launch would report otherwise
    return false;
  }
  bool works = true;
  for (ncclComm* const communicator : communicators_) {
    void* handle = nullptr;  // stays null where NCCL_LOCAL_REGISTER is 0
    ncclCommRegister(communicator, pointer, kBytes, &handle);
    works = works && handle != nullptr;
    if (handle != nullptr) ncclCommDeregister(communicator, handle);
  }
  ncclMemFree(pointer);
  if (!works) cudaGetLastError();
  return works;
}

void* NcclMemory::allocate(size_t bytes) {
  void* pointer = nullptr;
  const ncclResult_t result = ncclMemAlloc(&pointer, bytes);
  if (lacks_device_memory(result)) {
    cudaGetLastError();
    return nullptr;
  }
  nccl_check(result, "ncclMemAlloc");
  cuda_check(cudaMemset(pointer, 0, bytes), "cudaMemset");
  // Other streams do not wait for cudaMemset. The host waits for nothing else, because a kernel of
  // NCCL may be waiting for a peer.
  cuda_check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  const std::lock_guard lock(mutex_);
  Allocation allocation = {.bytes = bytes};
  for (ncclComm* const communicator : communicators_) {
    allocation.handles[communicator] = register_with(communicator, pointer, bytes);
  }
  allocations_.emplace(pointer, std::move(allocation));
  return pointer;
}

void NcclMemory::release(void* pointer, size_t) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end()) return;
  cudaDeviceSynchronize();  // neither deregistering nor ncclMemFree waits for operations
  for (const auto& [communicator, handle] : found->second.handles) {
    ncclCommDeregister(communicator, handle);
  }
  ncclMemFree(pointer);
  allocations_.erase(found);
}

void NcclMemory::add(ncclComm* communicator) {
  const std::lock_guard lock(mutex_);
  communicators_.insert(communicator);
  for (auto& [pointer, allocation] : allocations_) {
    allocation.handles[communicator] = register_with(communicator, pointer, allocation.bytes);
  }
}

void NcclMemory::remove(ncclComm* communicator, bool aborted) {
  const std::lock_guard lock(mutex_);
  communicators_.erase(communicator);
  for (auto& [pointer, allocation] : allocations_) {
    const auto found = allocation.handles.find(communicator);
    if (found == allocation.handles.end()) continue;
    if (!aborted) ncclCommDeregister(communicator, found->second);
    allocation.handles.erase(found);
  }
}

}  // namespace ladder
