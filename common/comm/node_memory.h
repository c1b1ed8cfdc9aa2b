// Registered buffers: memory that the ranks of a machine share.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "common/comm/mpi_world.h"
#include "kernels/runtime/memory.h"

namespace ladder {

// NodeMemory gives memory that all ranks of a node (a machine) can read and write, so collectives
// on it need no copies. NCCL calls such buffers registered.
//
// Every rank of the node makes the same allocations in the same order. Sizes may differ between
// ranks and may be 0. If a group has ranks on several machines, either all of them give registered
// buffers to a call, or none does: machines that differ end with an Error.
class NodeMemory final : public MemorySource {
 public:
  explicit NodeMemory(const MpiWorld& world);
  ~NodeMemory() override;

  // Returns memory that is zero and aligned to 64 bytes. If /dev/shm has too little room for all
  // ranks it throws an Error with the room and the need. Collective over the node.
  void* allocate(size_t bytes) override;
  // Takes part in the others' allocation. Collective over the node.
  void allocate_nothing() override { release(allocate(0), 0); }
  // Gives up this rank's view. Peers may go on using theirs. Not collective.
  void release(void* pointer, size_t bytes) noexcept override;

  // A location is the number of an allocation and an offset in it, in bytes. It means the
  // corresponding byte on every rank.
  struct Location {
    size_t allocation = 0;
    size_t offset = 0;
  };
  // Returns the location of `pointer`, or nothing if it does not lie in this memory.
  std::optional<Location> find(const void* pointer) const;
  // Returns this location in the memory of another rank; `node_rank` is its rank on this machine.
  void* at(const Location& location, size_t node_rank) const;

 private:
  // One rank's memory, as this process sees it.
  struct Mapping {
    char* begin = nullptr;
    size_t bytes = 0;
  };
  using Allocation = std::vector<Mapping>;  // by rank on the node; empty once released
  static void unmap(const Allocation& allocation);

  const MpiWorld& world_;
  size_t node_rank_ = 0;
  mutable std::mutex mutex_;  // communicators look into allocations_ from their worker threads
  std::vector<Allocation> allocations_;
};

}  // namespace ladder
