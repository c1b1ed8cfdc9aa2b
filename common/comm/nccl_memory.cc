#include "common/comm/nccl_memory.h"

#include <algorithm>
#include <cstdint>

#include "common/comm/nccl_check.h"

// Not there if the NCCL that runs is older than the one that this was compiled with: then they are
// null, and the program starts all the same.
#if NCCL_VERSION_CODE >= 22700
[[gnu::weak]] decltype(ncclCommWindowRegister) ncclCommWindowRegister;
[[gnu::weak]] decltype(ncclCommWindowDeregister) ncclCommWindowDeregister;
#endif

namespace ladder {
namespace {

constexpr size_t kTrialBytes = size_t{1} << 20;

// Returns the value of each rank. Collective over `host`.
std::vector<uint64_t> all_of(Transport& host, uint64_t own) {
  const int32_t halves[2] = {static_cast<int32_t>(own), static_cast<int32_t>(own >> 32)};
  std::vector<int32_t> all(2 * host.size());
  host.execute({Collective::all_gather,
                TensorView(all.data(), DType::int32, DeviceType::cpu, {all.size()}),
                ConstTensorView(halves, DType::int32, DeviceType::cpu, {2})});
  std::vector<uint64_t> values(host.size());
  for (size_t r = 0; r < values.size(); ++r) {
    values[r] = static_cast<uint32_t>(all[2 * r]) |
                static_cast<uint64_t>(static_cast<uint32_t>(all[2 * r + 1])) << 32;
  }
  return values;
}

bool all_have(Transport& host, uint64_t own) {
  return std::ranges::all_of(all_of(host, own), [=](uint64_t value) { return value == own; });
}

// Returns the handle of a window, or null where there can be none.
void* window_of(ncclComm* communicator, void* pointer, size_t bytes) {
#if NCCL_VERSION_CODE >= 22700
  ncclWindow_t window = nullptr;
  nccl_check(ncclCommWindowRegister(communicator, pointer, bytes, &window, NCCL_WIN_COLL_SYMMETRIC),
             "ncclCommWindowRegister");
  return window;
#else
  check(communicator == nullptr && pointer == nullptr && bytes == 0, "this NCCL has no windows");
  return nullptr;
#endif
}

}  // namespace

void NcclMemory::enter(Allocation& allocation, ncclComm* communicator) {
  void* handle = nullptr;
  nccl_check(ncclCommRegister(communicator, allocation.pointer, allocation.bytes, &handle),
             "ncclCommRegister");
  allocation.registrations.push_back({communicator, handle, false});
}

void NcclMemory::end(const Registration& registration) {
#if NCCL_VERSION_CODE >= 22700
  if (registration.is_window) {
    ncclCommWindowDeregister(registration.communicator,
                             static_cast<ncclWindow_t>(registration.handle));
    return;
  }
#endif
  ncclCommDeregister(registration.communicator, registration.handle);
}

// Of one communicator, or of all if it is null.
void NcclMemory::end(Allocation& allocation, ncclComm* communicator, bool aborted) {
  std::erase_if(allocation.registrations, [&](const Registration& registration) {
    if (communicator != nullptr && registration.communicator != communicator) return false;
    if (!aborted) end(registration);
    return true;
  });
}

// Makes a window of each allocation, and keeps them if all ranks have all. Collective.
bool NcclMemory::open_windows(std::span<Allocation> allocations, const Member& member) {
  const auto& [communicator, host] = member;
  bool has_all = true;
  for (Allocation& allocation : allocations) {
    void* const window = window_of(communicator, allocation.pointer, allocation.bytes);
    has_all = has_all && window != nullptr;
    if (window != nullptr) allocation.registrations.push_back({communicator, window, true});
  }
  const std::vector<uint64_t> fine = all_of(*host, has_all);
  if (std::ranges::count(fine, 0) == 0) return true;
  for (Allocation& allocation : allocations) end(allocation, communicator);
  return false;
}

bool NcclMemory::try_out() {
  const std::lock_guard lock(mutex_);
  void* pointer = nullptr;
  if (ncclMemAlloc(&pointer, kTrialBytes) != ncclSuccess) {
    cudaGetLastError();  // clears the error, which the next launch would report otherwise
    return false;
  }
  bool works = true;
  for (const auto& [communicator, host] : communicators_) {
    void* handle = nullptr;  // stays null where NCCL_LOCAL_REGISTER is 0
    ncclCommRegister(communicator, pointer, kTrialBytes, &handle);
    works = works && handle != nullptr;
    if (handle != nullptr) ncclCommDeregister(communicator, handle);
  }
  ncclMemFree(pointer);
  if (!works) cudaGetLastError();
  return works;
}

bool NcclMemory::try_windows() {
  const std::lock_guard lock(mutex_);
  const Member& first = communicators_.at(0);
  // Ranks that make windows wait for those that do not.
  const std::vector<uint64_t> can = all_of(*first.host, nccl_has_come(22700));
  if (std::ranges::count(can, 0) > 0) return false;
  Allocation trial = {nullptr, kTrialBytes};
  nccl_check(ncclMemAlloc(&trial.pointer, trial.bytes), "ncclMemAlloc");
  awaits_windows_ = open_windows({&trial, 1}, first);
  end(trial, nullptr);
  ncclMemFree(trial.pointer);
  return awaits_windows_;
}

// Returns whether the ranks have allocated equally many buffers, of the same sizes. Collective.
bool NcclMemory::is_alike(const Member& member) const {
  if (!all_have(*member.host, allocations_.size())) return false;
  bool same = true;
  for (const Allocation& allocation : allocations_) {
    same = all_have(*member.host, allocation.bytes) && same;
  }
  return same;
}

void NcclMemory::make_windows() {
  const std::lock_guard lock(mutex_);
  if (!awaits_windows_) return;
  for (const Member& member : communicators_) {
    if (is_alike(member) && open_windows(allocations_, member)) continue;
    for (Allocation& allocation : allocations_) enter(allocation, member.communicator);
  }
  awaits_windows_ = false;
}

void* NcclMemory::allocate(size_t bytes) {
  Allocation allocation = {nullptr, bytes};
  const ncclResult_t result = ncclMemAlloc(&allocation.pointer, bytes);
  if (lacks_device_memory(result)) {
    cudaGetLastError();
    return nullptr;
  }
  nccl_check(result, "ncclMemAlloc");
  const std::lock_guard lock(mutex_);
  try {
    cuda_check(cudaMemset(allocation.pointer, 0, bytes), "cudaMemset");
    // Other streams do not wait for cudaMemset. The host waits for nothing else, because a kernel
    // of NCCL may be waiting for a peer.
    cuda_check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    if (!awaits_windows_) {
      for (const Member& member : communicators_) enter(allocation, member.communicator);
    }
  } catch (...) {
    end(allocation, nullptr);
    ncclMemFree(allocation.pointer);
    throw;
  }
  allocations_.push_back(allocation);
  return allocation.pointer;
}

void NcclMemory::release(void* pointer, size_t) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(allocations_, pointer, &Allocation::pointer);
  if (found == allocations_.end()) return;
  cudaDeviceSynchronize();  // neither deregistering nor ncclMemFree waits for operations
  end(*found, nullptr);
  ncclMemFree(pointer);
  allocations_.erase(found);
}

void NcclMemory::add(ncclComm* communicator, Transport& host) {
  const std::lock_guard lock(mutex_);
  try {
    if (!awaits_windows_) {
      for (Allocation& allocation : allocations_) enter(allocation, communicator);
    }
    communicators_.push_back({communicator, &host});
  } catch (...) {
    for (Allocation& allocation : allocations_) end(allocation, communicator);
    throw;
  }
}

void NcclMemory::remove(ncclComm* communicator, bool aborted) {
  const std::lock_guard lock(mutex_);
  std::erase_if(communicators_, [=](const Member& m) { return m.communicator == communicator; });
  for (Allocation& allocation : allocations_) end(allocation, communicator, aborted);
}

size_t NcclMemory::window_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [pointer, size, registrations] : allocations_) {
    const auto is_window = [](const Registration& registration) { return registration.is_window; };
    bytes += size * static_cast<size_t>(std::ranges::count_if(registrations, is_window));
  }
  return bytes;
}

}  // namespace ladder
