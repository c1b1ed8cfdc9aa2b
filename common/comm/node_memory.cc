#include "common/comm/node_memory.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Windows begin at a page; what they need besides the data is less than one more.
constexpr size_t kPage = 4096;

void check_room(const MpiWorld& world, size_t bytes) {
  uint64_t own = bytes + kPage, needed = 0;
  mpi_check(MPI_Allreduce(&own, &needed, 1, MPI_UINT64_T, MPI_SUM, world.node()));
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0) return;  // no such folder: MPI finds another
  const uint64_t room = uint64_t{status.f_bavail} * status.f_frsize;
  if (needed > room) {
    fail(concat("/dev/shm has ", human_bytes(room), " free, the ranks of this machine need ",
                human_bytes(needed),
                " of shared memory; enlarge it, or use --no-shared-memory (slower)"));
  }
}

}  // namespace

NodeMemory::~NodeMemory() {
  if (std::uncaught_exceptions() > 0) return;
  for (Allocation& allocation : allocations_) {
    if (allocation.window != MPI_WIN_NULL) MPI_Win_free(&allocation.window);
  }
}

void* NodeMemory::allocate(size_t bytes) {
  check_room(world_, bytes);
  Allocation allocation;
  allocation.bytes = bytes;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  mpi_check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(size), 1, MPI_INFO_NULL, world_.node(),
                                    &allocation.own, &allocation.window));
  for (size_t rank = 0; rank < world_.node_size(); ++rank) {
    MPI_Aint peer_size = 0;
    int unit = 0;
    char* base = nullptr;
    mpi_check(
        MPI_Win_shared_query(allocation.window, static_cast<int>(rank), &peer_size, &unit, &base));
    allocation.of_rank.push_back(base);
  }
  std::memset(allocation.own, 0, size);
  mpi_check(MPI_Barrier(world_.node()));  // nobody reads before all are zero
  const std::lock_guard lock(mutex_);
  allocations_.push_back(std::move(allocation));
  return allocations_.back().own;
}

void NodeMemory::release(void* pointer, size_t) noexcept {
  // Freeing waits for the other ranks. While an exception unwinds they may never come; the program
  // is about to end all of them.
  if (std::uncaught_exceptions() > 0) return;
  MPI_Win window = MPI_WIN_NULL;
  {
    const std::lock_guard lock(mutex_);
    for (Allocation& allocation : allocations_) {
      if (allocation.own != pointer) continue;
      window = allocation.window;
      allocation = Allocation();  // its number stays taken
    }
  }
  if (window != MPI_WIN_NULL) MPI_Win_free(&window);
}

std::optional<NodeMemory::Place> NodeMemory::find(const void* pointer) const {
  const char* const p = static_cast<const char*>(pointer);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < allocations_.size(); ++i) {
    const Allocation& a = allocations_[i];
    if (a.own != nullptr && p >= a.own && p < a.own + a.bytes) {
      return Place{i, static_cast<size_t>(p - a.own)};
    }
  }
  return std::nullopt;
}

void* NodeMemory::at(const Place& place, size_t node_rank) const {
  const std::lock_guard lock(mutex_);
  return allocations_[place.allocation].of_rank[node_rank] + place.offset;
}

}  // namespace ladder
