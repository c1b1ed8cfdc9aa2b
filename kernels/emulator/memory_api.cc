// Memory: allocation, copies, sets.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/host_state.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/refusals.h"
#include "kernels/emulator/streams.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

struct PinnedMemory {
  std::mutex mutex;
  std::map<const char*, size_t> allocations;  // begin -> bytes
};

PinnedMemory& pinned_memory() {
  static PinnedMemory* const memory = new PinnedMemory;
  return *memory;
}

// Returns whether `bytes` bytes at `pointer` may be read and written, as memory of the device or of
// the host.
bool is_range(const void* pointer, size_t bytes, bool device) {
  const Arena& arena = Arena::instance();
  return device ? arena.holds(pointer, bytes) : pointer != nullptr && !arena.contains(pointer);
}

// Throws an Error if memory that a call names was freed before its stream reached the call.
void require_still_there(bool there, const char* call) {
  if (!there) throw Error(concat(call, ": its memory was freed before its stream came to it"));
}

// A copy that its stream reaches later. It reads and writes host memory then, pinned or not. (CUDA
// may do so too, and does not say when, if the memory is not pinned.)
struct Copy {
  void* destination;
  const void* source;
  size_t bytes;
  bool to_device, from_device;
  bool pinned = is_pinned(to_device ? source : destination);  // the side on the host

  void run() const {
    const Arena& arena = Arena::instance();
    require_still_there((!to_device || arena.holds(destination, bytes)) &&
                            (!from_device || arena.holds(source, bytes)) &&
                            (!pinned || is_pinned(to_device ? source : destination)),
                        "cudaMemcpyAsync");
    const DeviceAccess access;
    tell_observers([this](Observer& observer) {
      observer.work_is("a copy");
      if (pinned) observer.host_copy_begins();
    });
    std::memcpy(destination, source, bytes);
    tell_observers([this](Observer& observer) {
      if (pinned) observer.host_copy_ends();
      if (from_device) observer.read(source, bytes);
      if (!to_device) return;
      from_device ? observer.copied(destination, source, bytes)
                  : observer.written(destination, bytes);
    });
  }

  // Says that a stream was given this copy.
  void tell_given(WorkId work) const {
    if (!pinned || to_device == from_device) return;
    tell_observers([&](Observer& observer) {
      observer.host_copy_given(to_device ? source : destination, bytes, from_device, work);
    });
  }
};

cudaError_t make_copy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                      std::optional<Copy>& copy) {
  const Arena& arena = Arena::instance();
  const auto side = [&](bool by_kind, const void* pointer) {
    return kind == cudaMemcpyDefault ? arena.contains(pointer) : by_kind;
  };
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool to_device =
      side(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, destination);
  const bool from_device =
      side(kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, source);
  const bool fine = is_range(destination, bytes, to_device) &&
                    is_range(source, bytes, from_device) &&
                    !overlap({destination, bytes}, {source, bytes});
  if (!fine) return cudaErrorInvalidValue;
  copy.emplace(destination, source, bytes, to_device, from_device);
  return cudaSuccess;
}

}  // namespace

bool is_pinned(const void* pointer) {
  PinnedMemory& memory = pinned_memory();
  const std::lock_guard lock(memory.mutex);
  const char* const at = static_cast<const char*>(pointer);
  auto found = memory.allocations.upper_bound(at);
  if (found == memory.allocations.begin()) return false;
  --found;
  return at <= found->first + found->second;
}

}  // namespace ladder::emulator

using namespace ladder::emulator;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return note(cudaErrorInvalidValue);
  if (const auto status = refused("cudaMalloc")) return note(static_cast<cudaError_t>(*status));
  *pointer = bytes == 0 ? nullptr : Arena::instance().allocate(bytes);
  return note(bytes == 0 || *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  run_all_streams();
  const bool stray_write = !Arena::instance().find_stray_write().empty();
  if (!Arena::instance().release(pointer)) return note(cudaErrorInvalidValue);
  return note(stray_write ? cudaErrorIllegalAddress : cudaSuccess);
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  if (pointer == nullptr) return note(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > Arena::instance().total()) return note(cudaErrorMemoryAllocation);
  char* const begin = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (begin == nullptr) return note(cudaErrorMemoryAllocation);
  PinnedMemory& memory = pinned_memory();
  const std::lock_guard lock(memory.mutex);
  memory.allocations.emplace(begin, bytes);
  *pointer = begin;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  PinnedMemory& memory = pinned_memory();
  const std::lock_guard lock(memory.mutex);
  const auto found = memory.allocations.find(static_cast<char*>(pointer));
  if (found == memory.allocations.end()) return note(cudaErrorInvalidValue);
  tell_observers([&](Observer& observer) { observer.host_released(pointer, found->second); });
  memory.allocations.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return note(cudaErrorInvalidValue);
  const Arena& arena = Arena::instance();
  *total_bytes = arena.total();
  *free_bytes = arena.total() - arena.in_use();
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(destination, source, bytes, kind, nullptr);
  const Arena& arena = Arena::instance();
  const bool within_device = arena.contains(destination) && arena.contains(source);
  return status != cudaSuccess || within_device ? status : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  std::optional<Copy> copy;
  const cudaError_t status = make_copy(destination, source, bytes, kind, copy);
  if (status != cudaSuccess) return note(status);
  const StreamMark done = give(stream, [copy = *copy] { copy.run(); });
  copy->tell_given(done.work);
  if (!copy->to_device && !copy->from_device) run_to(done);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* destination, int value, size_t bytes) {
  return cudaMemsetAsync(destination, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* destination, int value, size_t bytes, cudaStream_t stream) {
  if (!is_stream(stream)) return note(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!Arena::instance().holds(destination, bytes)) return note(cudaErrorInvalidValue);
  give(stream, [=] {
    require_still_there(Arena::instance().holds(destination, bytes), "cudaMemsetAsync");
    if (launches_are_sampled()) return;
    const DeviceAccess access;
    std::memset(destination, value, bytes);
    tell_observers([=](Observer& observer) {
      observer.work_is("cudaMemset");
      observer.written(destination, bytes);
    });
  });
  return cudaSuccess;
}
