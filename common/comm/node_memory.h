// Registered buffers: memory that the ranks of a machine share.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "common/comm/mpi_world.h"
#include "kernels/runtime/memory.h"

namespace ladder {

// Shared memory of all ranks of the node. A buffer allocated here can be read and written by
// every rank of the node, so collectives on it need no copies. NCCL calls this registering.
//
// Every rank of the node makes the same allocations in the same order, each of its own size, which
// may be 0.
class NodeMemory final : public MemorySource {
 public:
  explicit NodeMemory(const MpiWorld& world);
  ~NodeMemory() override;

  // Collective over the node. Zero-filled, aligned to 64 bytes.
  // Throws Error, naming both numbers, where /dev/shm has too little room for all ranks.
  void* allocate(size_t bytes) override;
  // Peers may go on using their view of it.
  void release(void* pointer, size_t bytes) noexcept override;

  // Where `pointer` lies: the allocation's number and the offset in it; nothing if not here.
  struct Place {
    size_t allocation = 0;
    size_t offset = 0;
  };
  std::optional<Place> find(const void* pointer) const;
  // The same place in the memory of the rank `node_rank` (of the node's communicator).
  void* at(const Place& place, size_t node_rank) const;

 private:
  // Of one rank, as this process sees it.
  struct Mapping {
    char* begin = nullptr;
    size_t bytes = 0;
  };
  using Allocation = std::vector<Mapping>;  // by rank of the node; empty once released
  static void unmap(const Allocation& allocation);

  const MpiWorld& world_;
  size_t node_rank_ = 0;
  mutable std::mutex mutex_;  // communicators look into allocations_ from their worker threads
  std::vector<Allocation> allocations_;
};

}  // namespace ladder
