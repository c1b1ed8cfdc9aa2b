// Registered buffers for NCCL: device memory that collectives use without copies.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "common/comm/transport.h"
#include "kernels/runtime/memory_source.h"

struct ncclComm;

namespace ladder {

// NcclMemory gives device memory that NCCL reads and writes in place, without staging buffers of
// its own: it comes from ncclMemAlloc and is registered with every communicator. What NCCL does if
// a buffer is registered on some ranks only is not defined. So either all ranks of a run take their
// buffers from here, or none does, and all take plain device memory: slower, with the same results.
//
// Buffers can also be windows (NCCL 2.27 and newer): each rank then reads and writes those of its
// peers directly, where NVLink connects them. To make a window is collective, and its size must be
// that of the peers', whereas ranks allocate when and what they need. So first they allocate, and
// then all make their windows together. What is allocated later, or is not alike on all ranks of a
// communicator, is registered with that communicator as without windows, on all its ranks alike.
//
// NcclMemory must outlive the communicators that are added. It is thread-safe.
class NcclMemory final : public MemorySource {
 public:
  // Returns whether NCCL can allocate memory here and register it with the communicators. Before
  // they take any, the ranks compare what they found.
  bool try_out();
  // Returns whether the ranks can make windows; the answer is the same on all. If so, memory is not
  // registered before make_windows(). Collective over the communicator that was added first.
  // REQUIRES: try_out() has found on all ranks that memory can be registered.
  bool try_windows();
  // Registers what has been allocated, as windows where ranks have allocated alike, and everything
  // from then on. Does nothing unless try_windows() has returned true. Collective over all
  // communicators. Throws an Error if NCCL fails, though it could say that there are no windows.
  void make_windows();

  // Throws an Error if NCCL does not allocate or register the memory, although try_out() said so.
  // Then nothing of it is left.
  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) noexcept override;

  // Registers all memory, present and future, with the communicator of the ranks of `host`, which
  // must live until it is removed. After an exception nothing is registered with it.
  void add(ncclComm* communicator, Transport& host);
  // Ends the registrations with the communicator. It must be called before the communicator is
  // destroyed. If the communicator was aborted, `aborted` is true and NCCL is not called.
  void remove(ncclComm* communicator, bool aborted);

  // Returns how many bytes of windows there are with all communicators.
  size_t window_bytes() const;

 private:
  struct Registration {
    ncclComm* communicator;
    void* handle;
    bool is_window;
  };
  struct Allocation {
    void* pointer;
    size_t bytes;
    std::vector<Registration> registrations = {};
  };
  struct Member {
    ncclComm* communicator;
    Transport* host;
  };
  static void enter(Allocation& allocation, ncclComm* communicator);
  static bool open_windows(std::span<Allocation> allocations, const Member& member);
  static void end(const Registration& registration);
  static void end(Allocation& allocation, ncclComm* communicator, bool aborted = false);
  bool is_alike(const Member& member) const;

  mutable std::mutex mutex_;
  std::vector<Allocation> allocations_;  // in the order in which they were made
  std::vector<Member> communicators_;    // the same
  bool awaits_windows_ = false;
};

}  // namespace ladder
