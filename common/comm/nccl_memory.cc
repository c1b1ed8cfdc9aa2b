#include "common/comm/nccl_memory.h"

#include "common/comm/nccl_check.h"
#include "kernels/runtime/cuda.h"

namespace ladder {
namespace {

// Returns NCCL's handle of the registration, or null if NCCL does not register this memory.
void* register_with(ncclComm* communicator, void* pointer, size_t bytes) {
  void* handle = nullptr;
  const ncclResult_t result = ncclCommRegister(communicator, pointer, bytes, &handle);
  return result == ncclSuccess ? handle : nullptr;
}

}  // namespace

void* NcclMemory::allocate(size_t bytes) {
  Allocation allocation;
  allocation.bytes = bytes;
  void* pointer = nullptr;
  if (ncclMemAlloc(&pointer, bytes) == ncclSuccess && pointer != nullptr) {
    allocation.by_nccl = true;
    cuda_check(cudaMemset(pointer, 0, bytes), "cudaMemset");
    // Other streams do not wait for cudaMemset. The host waits for nothing else, because a kernel
    // of NCCL may be waiting for a peer.
    cuda_check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  } else {
    cudaGetLastError();  // clears the error, which the next launch would report otherwise
    pointer = memory_of(device_).allocate(bytes);
    if (pointer == nullptr) return nullptr;
  }
  const std::lock_guard lock(mutex_);
  for (ncclComm* const communicator : communicators_) {
    allocation.handles[communicator] = register_with(communicator, pointer, bytes);
  }
  allocations_.emplace(pointer, std::move(allocation));
  return pointer;
}

void NcclMemory::release(void* pointer, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end()) return;
  cudaDeviceSynchronize();  // neither deregistering nor ncclMemFree waits for operations
  for (const auto& [communicator, handle] : found->second.handles) {
    if (handle != nullptr) ncclCommDeregister(communicator, handle);
  }
  if (found->second.by_nccl) {
    ncclMemFree(pointer);
  } else {
    memory_of(device_).release(pointer, bytes);
  }
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
    if (found->second != nullptr && !aborted) ncclCommDeregister(communicator, found->second);
    allocation.handles.erase(found);
  }
}

}  // namespace ladder
