#include "kernels/runtime/memory_source.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/runtime/cuda.h"

namespace ladder {
namespace {

class SystemMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    if (bytes > PTRDIFF_MAX) return nullptr;  // rounding up would wrap around
    if (bytes >= kHugePage) return allocate_huge(bytes);
    void* const pointer = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (pointer != nullptr) std::memset(pointer, 0, bytes);
    return pointer;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    if (bytes < kHugePage) {
      std::free(pointer);
    } else {
      munmap(pointer, round_up(bytes));
    }
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static size_t round_up(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

  // Huge pages save most of the page faults when memory is first touched. mmap only aligns to small
  // pages, so we take one huge page more and give the ends back.
  static void* allocate_huge(size_t bytes) {
    const size_t size = round_up(bytes);
    void* mapped = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(mapped);
    const size_t head = (kHugePage - reinterpret_cast<size_t>(begin) % kHugePage) % kHugePage;
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, kHugePage - head);
    madvise(begin + head, size, MADV_HUGEPAGE);
    return begin + head;
  }
};

// Returns the pointer, or null if CUDA has no memory left. Throws an Error for all other errors.
void* or_null(cudaError_t result, const char* call, void* pointer) {
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  cuda_check(result, call);
  return pointer;
}

class CudaMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    void* pointer = nullptr;
    const cudaError_t result = cudaMalloc(&pointer, bytes);
    if (or_null(result, "cudaMalloc", pointer) == nullptr) return nullptr;
    cuda_check(cudaMemset(pointer, 0, bytes), "cudaMemset");
    // Other streams do not wait for cudaMemset. The host waits for nothing else, because a kernel
    // of NCCL may be waiting for a peer.
    cuda_check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    return pointer;
  }
  // Errors of kernels were thrown where they arose. An error here says only that the program is
  // ending and CUDA has gone already.
  void release(void* pointer, size_t) noexcept override { cudaFree(pointer); }
};

class PinnedMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    void* pointer = nullptr;
    const cudaError_t result = cudaMallocHost(&pointer, bytes);
    if (or_null(result, "cudaMallocHost", pointer) == nullptr) return nullptr;
    std::memset(pointer, 0, bytes);
    return pointer;
  }
  void release(void* pointer, size_t) noexcept override { cudaFreeHost(pointer); }
};

// Returns addresses at which no process can have memory. On x86-64 that needs bits 56 to 63 that
// are not alike; aarch64 ignores these, and needs bits 52 to 55 that are not alike.
class NoMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    const uintptr_t at = next_.fetch_add((bytes + kAlignment - 1) / kAlignment * kAlignment);
    return reinterpret_cast<void*>(at);  // NOLINT: nothing is read or written there
  }
  void release(void*, size_t) noexcept override {}

 private:
  static constexpr uintptr_t kAlignment = 64;
  std::atomic<uintptr_t> next_ = uintptr_t{0x404} << 52;
};

}  // namespace

MemorySource& no_memory() {
  static NoMemory none;
  return none;
}

MemorySource& memory_of(DeviceType device) {
  static SystemMemory system;
  static CudaMemory cuda;
  if (device == DeviceType::cpu) return system;
  return cuda;
}

MemorySource& host_memory_for(DeviceType device) {
  static PinnedMemory pinned;
  if (device == DeviceType::cpu) return memory_of(DeviceType::cpu);
  return pinned;
}

}  // namespace ladder
